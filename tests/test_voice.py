"""Speech is found by loudness, and audio is cut in silence."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.loudness import FRAME
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.stitching import Join
from seat.voice import AUTO, PACKED_GAP, Chunking, packed, speech_stretches
from seat.windows import WindowLimits, plan_within, quietest_point
from tests.fakes import SPOKEN, VOCABULARY, FakeRecognizer, hear, speech
from tests.stitched import stitch

LIMITS = WindowLimits.of_seconds(7, (2, 2))


def _chunking(*, threshold: float = 0.5, padding_s: float = 0.0, silence_s: float = 0.2) -> Chunking:
    return Chunking(threshold=threshold, padding_s=padding_s, silence_s=silence_s, packed=False)


def _seconds(audio: Waveform, chunking: Chunking) -> list[tuple[float, float]]:
    return [
        (round(start / SAMPLE_RATE, 2), round(stop / SAMPLE_RATE, 2))
        for start, stop in speech_stretches(audio, chunking)
    ]


def test_speech_is_what_is_loud() -> None:
    """Each word of 0.4 s between pauses of 0.6 s, with the silence that ends it."""
    assert _seconds(speech([3, 4]), _chunking()) == [(0.6, 1.2), (1.6, 2.2)]


def test_what_comes_before_speech_is_heard_too() -> None:
    """Not what belongs to the stretch before."""
    assert _seconds(speech([3, 4]), _chunking(padding_s=0.3)) == [(0.3, 1.2), (1.3, 2.2)]
    assert _seconds(speech([3, 4]), _chunking(padding_s=9)) == [(0.0, 1.2), (1.2, 2.2)]


def test_a_shorter_silence_ends_nothing() -> None:
    """Words 0.6 s apart are one stretch where it takes 0.7 s to end one."""
    assert _seconds(speech([3, 4]), _chunking(silence_s=0.7)) == [(0.6, 2.6)]


def test_a_higher_threshold_takes_louder_speech() -> None:
    """Digits are 1,000 times their number plus one loud."""
    quiet_and_loud = speech([0, 9])
    assert len(speech_stretches(quiet_and_loud, _chunking(threshold=0.5))) == 2
    assert _seconds(quiet_and_loud, _chunking(threshold=0.9)) == [(1.6, 2.2)]


@pytest.mark.parametrize("level", [1, 30])
def test_a_quiet_recording_is_cut_like_a_loud_one(level: int) -> None:
    """Loudness is told within the file's own range: 40 decibels less change nothing."""
    audio = (speech([3, 4]).astype(np.int32) // level).astype(np.int16)
    assert _seconds(audio, _chunking()) == [(0.6, 1.2), (1.6, 2.2)]


@pytest.mark.parametrize(
    "audio",
    [
        np.zeros(SAMPLE_RATE, np.int16),
        np.full(SAMPLE_RATE, 900, np.int16),
        np.random.default_rng(1).normal(0, 900, 9000),
    ],
)
def test_where_nothing_is_silence_everything_is_heard(audio: Waveform) -> None:
    """Digital silence, a level tone, noise: the model decides what is in them."""
    assert speech_stretches(audio.astype(np.int16), AUTO) == [(0, len(audio))]


def test_a_click_is_not_the_loudest_speech() -> None:
    """One frame at full scale leaves quiet words audible."""
    audio = speech([0, 0, 0]).copy()
    audio[100:150] = 32_767
    stretches = speech_stretches(audio, _chunking(threshold=0.9))
    assert len([stretch for stretch in stretches if stretch[0] > FRAME]) == 3


def test_no_audio_has_no_speech() -> None:
    """Nothing to cut."""
    assert speech_stretches(np.zeros(0, np.int16), AUTO) == []


def test_neighbours_share_a_window_while_it_is_short_enough() -> None:
    """And while the silence between them is."""
    near, far = PACKED_GAP, PACKED_GAP + 1
    assert packed([(0, 10), (10 + near, 20 + near)], 10**9) == [(0, 20 + near)]
    assert packed([(0, 10), (10 + far, 20 + far)], 10**9) == [(0, 10), (10 + far, 20 + far)]
    assert packed([(0, 10), (12, 20), (22, 30)], 20) == [(0, 20), (22, 30)]


@settings(max_examples=100, deadline=None)
@given(
    digits=st.lists(st.integers(0, 9), min_size=3, max_size=30),
    gap_s=st.floats(0.3, 2),
    pause_s=st.floats(0, 8),
    chunking=st.builds(
        Chunking,
        threshold=st.just(0.3),
        padding_s=st.floats(0, 1),
        silence_s=st.floats(0.1, 1),
        packed=st.booleans(),
    ),
    join=st.sampled_from(["independent", "carried"]),
)
def test_no_word_is_lost_whatever_the_cuts(
    digits: list[int], gap_s: float, pause_s: float, chunking: Chunking, join: Join
) -> None:
    """By either join, packed or not: the words of one pass, each once, in windows that are not too long."""
    grid = 1280 if join == "carried" else 1
    pause = np.zeros(round(pause_s * SAMPLE_RATE), np.int16)
    audio = np.concatenate([speech(digits, gap_s=gap_s), pause, speech(digits, gap_s=gap_s)])
    stretches = speech_stretches(audio, chunking)
    windows = plan_within(
        packed(stretches, LIMITS.core if chunking.packed else SAMPLE_RATE),
        len(audio),
        LIMITS,
        lambda first, last: quietest_point(audio, first, last),
        grid,
    )
    for window, following in pairwise(windows):
        assert window.core_stop // grid <= following.core_start // grid
    assert max(window.samples for window in windows) <= LIMITS.longest
    join = join if len(windows) > 1 else "independent"
    heard = (
        [FakeRecognizer().proceed([window.chunk(audio, grid)])[0][0] for window in windows]
        if join == "carried"
        else [hear(window.cut(audio)) for window in windows]
    )
    transcript = stitch(windows, heard, VOCABULARY, samples=len(audio), language="en", join=join)
    assert [word.text for word in transcript.words] == [SPOKEN[digit] for digit in digits * 2]
