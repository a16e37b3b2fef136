"""Stitching loses and doubles nothing, and what was said once is never taken back."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.recognizer import SAMPLE_RATE, Recognition, Vocabulary, Waveform
from seat.stitching import Join, Stitcher
from seat.transcript import Transcript
from seat.windows import Window, WindowLimits, plan, quietest_point
from seat.words import spoken_words
from tests.fakes import SPOKEN, VOCABULARY, FakeRecognizer, hear, speech
from tests.stitched import stitch

LIMITS = WindowLimits.of_seconds(7, (2, 2))
FRAME = 1280
PIECES = Vocabulary(
    pieces=("▁he", "llo", "▁", "▁he.", ".", "s"),
    punctuation=frozenset("."),
    frame_s=0.08,
    predicts_durations=True,
)
"""Words of several tokens, marks that attach, and a lone mark."""


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


@st.composite
def _heard(draw: st.DrawFn) -> tuple[list[Window], list[Recognition], int]:
    """Windows of a file, and in each of them anything at all."""
    samples = draw(st.integers(1, 60)) * SAMPLE_RATE
    limits = WindowLimits.of_seconds(draw(st.integers(2, 9)), (draw(st.integers(0, 3)), draw(st.integers(0, 3))))
    windows = plan(samples, limits, lambda first, last: draw(st.integers(first, last)), FRAME)
    recognitions = []
    for window in windows:
        frames = sorted(draw(st.lists(st.integers(0, window.samples // FRAME), max_size=12)))
        rows = [(draw(st.integers(0, len(PIECES.pieces) - 1)), frame, draw(st.integers(0, 4))) for frame in frames]
        recognitions.append(_recognition(*rows))
    return windows, recognitions, samples


@settings(max_examples=150, deadline=None)
@given(heard=_heard(), join=st.sampled_from(["independent", "carried"]))
def test_what_is_given_window_by_window_is_the_text_of_the_whole(
    heard: tuple[list[Window], list[Recognition], int], join: Join
) -> None:
    """Whatever is heard, by either join: the same words with the same tokens, in the same order."""
    windows, recognitions, samples = heard
    stitcher = Stitcher(windows, PIECES, samples=samples, language="en", join=join)
    given_words = [word for recognition in recognitions for word in stitcher.take(recognition)]
    whole = stitch(windows, recognitions, PIECES, samples=samples, language="en", join=join)
    assert [(word.text, word.tokens) for word in given_words] == [(word.text, word.tokens) for word in whole.words]


@settings(max_examples=150, deadline=None)
@given(heard=_heard())
def test_a_decoder_that_goes_on_gives_one_sequence(heard: tuple[list[Window], list[Recognition], int]) -> None:
    """Cut anywhere, in the middle of words too, it is read as if it had not been cut."""
    windows, recognitions, samples = heard
    shifts = [(window.start - windows[0].start) // FRAME for window in windows]
    whole = _recognition(
        *(
            (token, shift + frame, duration)
            for shift, heard_here in zip(shifts, recognitions, strict=True)
            for token, frame, duration in zip(heard_here.tokens, heard_here.frames, heard_here.durations, strict=True)
        )
    )
    stitcher = Stitcher(windows, PIECES, samples=samples, language="en", join="carried")
    given_words = [word for recognition in recognitions for word in stitcher.take(recognition)]
    offset_s = windows[0].start / SAMPLE_RATE
    assert given_words == spoken_words(whole, PIECES, offset_s=offset_s, audio_s=samples / SAMPLE_RATE)


def test_the_word_before_a_seam_waits_for_the_next_window() -> None:
    """There it may come again with its mark; the words before it are given at once, and silence releases it."""
    audio = speech([1, 2, 3, 4] + [5] * 30)
    windows = plan(len(audio), LIMITS, _latest)
    stitcher = Stitcher(windows, VOCABULARY, samples=len(audio), language="en", join="independent")
    first = [word.text for word in stitcher.take(hear(windows[0].cut(audio)))]
    assert first == ["one", "two", "three", "four", "five", "five"]
    nothing = Recognition(tokens=(), frames=(), durations=(), confidences=())
    assert [word.text for word in stitcher.take(nothing)] == ["five"]


def test_without_context_behind_a_core_every_word_is_still_counted_once() -> None:
    """Without context behind the core, the cut goes through the middle of whatever is said there."""
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


@pytest.mark.parametrize("core_s, context_s", [(3, (2, 2)), (10, (2, 2)), (20, (6, 4))])
def test_five_minutes_of_speech_have_no_hole(core_s: float, context_s: tuple[float, float]) -> None:
    """Whatever the windows: every word, the last one at its place, and never a second without one."""
    digits = [number * number % 10 for number in range(300)]
    words = _transcribe(speech(digits), WindowLimits.of_seconds(core_s, context_s)).words
    assert [SPOKEN[digit] for digit in digits] == [word.text for word in words]
    assert words[-1].end_s == pytest.approx(0.6 + 299 + 0.4, abs=1)
    assert max(after.start_s - before.end_s for before, after in pairwise(words)) < 1


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
    transcript = stitch(windows, heard, VOCABULARY, samples=len(audio), language="en", join="carried")
    assert [word.text for word in transcript.words] == [SPOKEN[digit] for digit in digits]
    assert transcript.words[0].start_s == pytest.approx(gap_s, abs=0.081)


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
