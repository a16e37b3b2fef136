"""Plans cover the audio."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seat.recognizer import SAMPLE_RATE
from seat.windows import SHORTEST, Window, WindowLimits, plan, quietest_point, without_tail
from tests.fakes import speech

LIMITS = WindowLimits.of_seconds(7, (2, 2))


def _latest(_first: int, last: int) -> int:
    return last


@given(
    samples=st.integers(1, 100 * SAMPLE_RATE),
    core_s=st.floats(2, 40),
    left_s=st.floats(0, 12),
    right_s=st.floats(0, 12),
    seed=st.integers(0, 1000),
)
def test_cores_tile_the_audio_and_no_window_is_too_long(
    samples: int, core_s: float, left_s: float, right_s: float, seed: int
) -> None:
    """Wherever the quiet points lie: no gap, no overlap, no window beyond its limit or below the shortest."""
    limits = WindowLimits.of_seconds(core_s, (left_s, right_s))
    random = np.random.default_rng(seed)
    windows = plan(samples, limits, lambda first, last: int(random.integers(first, last + 1)))
    assert windows[0].core_start == 0
    assert windows[-1].core_stop == samples
    assert [window.core_stop for window in windows[:-1]] == [window.core_start for window in windows[1:]]
    for window in windows:
        assert window.start <= window.core_start < window.core_stop <= window.stop
        assert SHORTEST <= window.samples <= max(limits.longest, SHORTEST)


def test_empty_audio_has_no_window() -> None:
    """There is nothing to hear."""
    assert plan(0, LIMITS, _latest) == []


@pytest.mark.parametrize("samples", [1, 159, 160, 319, 1600, SAMPLE_RATE - 1])
def test_audio_below_a_second_stands_in_the_middle_of_one(samples: int) -> None:
    """As NeMo's transcribe() pads it: half of the silence before, the rest behind; times stay those of the audio."""
    (window,) = plan(samples, LIMITS, _latest)
    padding = SHORTEST - samples
    assert window == Window(
        start=-(padding // 2), core_start=0, core_stop=samples, stop=samples + padding - padding // 2
    )
    heard = window.cut(np.ones(samples, np.int16))
    assert len(heard) == SHORTEST
    assert np.flatnonzero(heard).tolist() == list(range(padding // 2, padding // 2 + samples))


def test_what_fits_the_longest_window_is_one_window() -> None:
    """One sample more, and it is cut."""
    assert len(plan(LIMITS.longest, LIMITS, _latest)) == 1
    assert len(plan(LIMITS.longest + 1, LIMITS, _latest)) == 2


def test_a_cut_is_made_in_the_middle_of_silence() -> None:
    """Between two loud stretches the cut falls into the pause."""
    audio = np.full(10 * SAMPLE_RATE, 9000, np.int16)
    audio[5 * SAMPLE_RATE : 5 * SAMPLE_RATE + 1600] = 0
    point = quietest_point(audio, 4 * SAMPLE_RATE, 6 * SAMPLE_RATE)
    assert 5 * SAMPLE_RATE < point < 5 * SAMPLE_RATE + 1600


def test_the_loudest_samples_do_not_overflow() -> None:
    """Energy is counted in floating point: -32768 squared does not fit the samples' type."""
    audio = np.full(4 * SAMPLE_RATE, -32768, np.int16)
    audio[2 * SAMPLE_RATE : 2 * SAMPLE_RATE + 2000] = 20
    assert 2 * SAMPLE_RATE <= quietest_point(audio, 0, 4 * SAMPLE_RATE) <= 2 * SAMPLE_RATE + 2000


@pytest.mark.parametrize(
    "speech_s, silence_s, expected_s",
    [(3.0, 2.0, 3.2), (0.3, 3.0, 1.0), (3.0, 0.3, None), (3.0, 0.0, None), (0.0, 3.0, None)],
)
def test_a_window_is_ended_where_its_sound_ends(speech_s: float, silence_s: float, expected_s: float | None) -> None:
    """Two tenths of silence stay, and one second in all; where there is nothing to cut, there is nothing to try."""
    parts = [np.full(round(speech_s * SAMPLE_RATE), 5000, np.int16), np.zeros(round(silence_s * SAMPLE_RATE), np.int16)]
    audio = np.concatenate(parts)
    (window,) = plan(len(audio), LIMITS, _latest)
    shorter = without_tail(window, audio)
    assert (None if shorter is None else round(shorter.samples / SAMPLE_RATE, 2)) == expected_s


def test_where_there_is_no_room_for_a_choice_the_cut_is_where_it_must_be() -> None:
    """Without context behind the core, or with less than the span that is averaged."""
    audio = speech([1, 2, 3])
    assert [quietest_point(audio, first, 16000) for first in (16000, 15990, 15200)] == [16000, 16000, 16000]
