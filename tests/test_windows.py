"""Plans cover the audio, and stitching loses and doubles nothing."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.recognizer import SAMPLE_RATE, Recognition, Waveform
from seat.transcript import Transcript
from seat.windows import SHORTEST, Window, WindowLimits, follow, plan, quietest_point, stitch, without_tail
from tests.fakes import SPOKEN, VOCABULARY, FakeRecognizer, hear, speech

LIMITS = WindowLimits.of_seconds(7, (2, 2))


def _transcribe(audio: Waveform, limits: WindowLimits) -> Transcript:
    windows = plan(len(audio), limits, lambda first, last: quietest_point(audio, first, last))
    recognitions = [hear(window.cut(audio)) for window in windows]
    return stitch(windows, recognitions, VOCABULARY, samples=len(audio), language="en")


def _latest(_first: int, last: int) -> int:
    return last


def _recognition(*rows: tuple[int, int, int]) -> Recognition:
    return Recognition(
        tokens=tuple(token for token, _, _ in rows),
        frames=tuple(frame for _, frame, _ in rows),
        durations=tuple(duration for _, _, duration in rows),
        confidences=(0.9,) * len(rows),
    )


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


def test_where_there_is_no_room_for_a_choice_the_cut_is_where_it_must_be() -> None:
    """Without context behind the core, or with less than the span that is averaged."""
    audio = speech([1, 2, 3])
    assert [quietest_point(audio, first, 16000) for first in (16000, 15990, 15200)] == [16000, 16000, 16000]
    transcript = _transcribe(speech([3] * 60), WindowLimits.of_seconds(7, (2, 0)))
    assert len(transcript.words) == 60


@settings(max_examples=100, deadline=None)
@given(
    digits=st.lists(st.integers(0, 9), min_size=20, max_size=60),
    core_s=st.floats(2, 9),
    gap_s=st.floats(0.1, 0.8),
    seed=st.integers(0, 999),
    frames=st.integers(1, 5),
)
def test_windows_that_differ_by_a_frame_still_agree(
    digits: list[int], core_s: float, gap_s: float, seed: int, frames: int
) -> None:
    """Each may place a word a frame early or late, and a word may be one frame long: none is lost, none doubled."""
    random, limits = np.random.default_rng(seed), WindowLimits.of_seconds(core_s, (2, 2))
    audio = speech(digits, gap_s=gap_s)
    windows = plan(len(audio), limits, lambda _, last: last)
    heard = [
        replace(
            recognition,
            frames=tuple(max(0, frame + int(random.integers(-1, 1))) for frame in recognition.frames),
            durations=(frames,) * len(recognition.tokens),
        )
        for recognition in (hear(window.cut(audio)) for window in windows)
    ]
    for window, recognition in zip(windows, heard, strict=True):
        assert list(recognition.frames) == sorted(recognition.frames), window
    transcript = stitch(windows, heard, VOCABULARY, samples=len(audio), language="en")
    assert [word.text for word in transcript.words] == [SPOKEN[digit] for digit in digits]


def test_stitching_one_window_is_the_identity() -> None:
    """A short clip says what its one window heard."""
    transcript = _transcribe(speech([3, 1, 4]), LIMITS)
    assert [word.text for word in transcript.words] == ["three", "one", "four"]
    assert transcript.duration_s == pytest.approx(0.6 + 3 * 1.0)


@settings(max_examples=150, deadline=None)
@given(
    digits=st.lists(st.integers(0, 9), min_size=1, max_size=90),
    core_s=st.floats(2, 20),
    left_s=st.floats(0.8, 5),
    right_s=st.floats(0.8, 5),
    gap_s=st.floats(0.05, 1.5),
)
def test_windows_hear_what_one_pass_hears(
    digits: list[int], core_s: float, left_s: float, right_s: float, gap_s: float
) -> None:
    """One word after another, equal ones included: none lost, none doubled at any seam, times within a frame."""
    audio = speech(digits, gap_s=gap_s)
    transcript = _transcribe(audio, WindowLimits.of_seconds(core_s, (left_s, right_s)))
    assert [word.text for word in transcript.words] == [SPOKEN[digit] for digit in digits]
    for number, word in enumerate(transcript.words):
        assert word.start_s == pytest.approx(gap_s + number * (0.4 + gap_s), abs=0.081)


@settings(max_examples=100, deadline=None)
@given(
    digits=st.lists(st.integers(0, 9), min_size=1, max_size=90),
    core_s=st.floats(2, 20),
    left_s=st.floats(0.8, 5),
    right_s=st.floats(0.8, 5),
    gap_s=st.floats(0.05, 1.5),
)
def test_a_decoder_that_goes_on_hears_what_one_pass_hears(
    digits: list[int], core_s: float, left_s: float, right_s: float, gap_s: float
) -> None:
    """Every frame is decoded once, whatever the windows: the same words at the same frames."""
    audio, recognizer, frame = speech(digits, gap_s=gap_s), FakeRecognizer(), 1280
    limits = WindowLimits.of_seconds(core_s, (left_s, right_s))
    windows = plan(len(audio), limits, lambda first, last: quietest_point(audio, first, last), frame)
    heard = [recognizer.proceed([window.chunk(audio, frame)])[0][0] for window in windows]
    transcript = follow(windows, heard, VOCABULARY, samples=len(audio), language="en")
    assert [word.text for word in transcript.words] == [SPOKEN[digit] for digit in digits]
    assert transcript.words[0].start_s == pytest.approx(gap_s, abs=0.081)


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


def test_the_same_word_on_both_sides_of_a_seam_is_kept_once_with_its_mark() -> None:
    """Both windows place it just inside their own core, one with a full stop."""
    windows = [
        Window(start=0, core_start=0, core_stop=16000, stop=32000),
        Window(start=0, core_start=16000, core_stop=32000, stop=32000),
    ]
    dot = VOCABULARY.pieces.index(".")
    left = _recognition((7, 10, 2))
    right = _recognition((7, 11, 3), (dot, 13, 1))
    transcript = stitch(windows, [left, right], VOCABULARY, samples=32000, language="en")
    assert transcript.text == "six."


def test_a_word_that_both_sides_place_just_outside_is_not_lost() -> None:
    """The left window hears it behind the cut, the right one before."""
    windows = [
        Window(start=0, core_start=0, core_stop=16000, stop=32000),
        Window(start=0, core_start=16000, core_stop=32000, stop=32000),
    ]
    transcript = stitch(
        windows, [_recognition((7, 12, 2)), _recognition((7, 11, 2))], VOCABULARY, samples=32000, language="en"
    )
    assert transcript.text == "six"


def test_words_do_not_overlap() -> None:
    """Tokens emitted in one frame still become words one after another, each at least a frame long."""
    windows = plan(32000, LIMITS, _latest)
    transcript = stitch(
        windows, [_recognition((1, 5, 4), (2, 6, 1), (3, 6, 1))], VOCABULARY, samples=32000, language="en"
    )
    words = transcript.words
    for word in words:
        assert word.end_s - word.start_s >= 0.08 - 1e-9
    for word, following in pairwise(words):
        assert word.end_s <= following.start_s + 1e-9


def test_silence_has_no_words() -> None:
    """A window in which nothing is heard is a transcript without segments."""
    assert _transcribe(np.zeros(3 * SAMPLE_RATE, np.int16), LIMITS).segments == ()
