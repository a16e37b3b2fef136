"""Subtitles that can be read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seat.cues import LINE_CHARACTERS, LINES, LONGEST_S, PAUSE_S, Cue, cues
from seat.transcript import Word


def _words(*texts: str, word_s: float = 0.4, gap_s: float = 0.1) -> list[Word]:
    step_s = word_s + gap_s
    return [
        Word(text=text, start_s=place * step_s, end_s=place * step_s + word_s, confidence=1.0)
        for place, text in enumerate(texts)
    ]


def _lines(shown: list[Cue]) -> list[tuple[str, ...]]:
    return [cue.lines for cue in shown]


@st.composite
def _speech(draw: st.DrawFn) -> list[Word]:
    words, reached_s = [], 0.0
    for text in draw(st.lists(st.text("abcdefghijklmnopqrstuvwxyz.,?", min_size=1, max_size=12), max_size=60)):
        start_s = reached_s + draw(st.floats(0, 2))
        reached_s = start_s + draw(st.floats(0.08, 1.5))
        words.append(Word(text=text, start_s=start_s, end_s=reached_s, confidence=1.0))
    return words


@given(words=_speech())
def test_cues_hold_all_words_in_order_and_can_be_read(words: list[Word]) -> None:
    """Two lines of 42 characters, seven seconds, whatever is said; none overlaps the next."""
    shown = cues(words)
    assert " ".join(line for cue in shown for line in cue.lines) == " ".join(word.text for word in words)
    for cue in shown:
        assert 1 <= len(cue.lines) <= LINES
        assert max(map(len, cue.lines)) <= LINE_CHARACTERS
        assert 0 < cue.end_s - cue.start_s <= LONGEST_S
    for cue, following in pairwise(shown):
        assert cue.end_s <= following.start_s


def test_a_cue_ends_with_its_sentence() -> None:
    """Whatever its mark."""
    assert _lines(cues(_words("Yes.", "No?", "Stop!", "well", "then"))) == [
        ("Yes.",),
        ("No?",),
        ("Stop!",),
        ("well then",),
    ]


@pytest.mark.parametrize("gap_s, expected", [(PAUSE_S + 0.01, 2), (PAUSE_S - 0.01, 1)])
def test_a_cue_ends_at_a_pause(gap_s: float, expected: int) -> None:
    """A second of it."""
    assert len(cues(_words("one", "two", gap_s=gap_s))) == expected


def test_a_long_sentence_is_cut_behind_a_clause() -> None:
    """Not in the middle of what belongs together."""
    words = _words("when", "the", "rain", "had", "stopped", "at", "last,", *["we", "went", "out", "to", "look"] * 2)
    shown = cues(words)
    assert " ".join(shown[0].lines).endswith("last,")


def test_two_lines_are_of_about_one_length() -> None:
    """A full line above a single word is hard to read."""
    (cue,) = cues(_words(*["wordword"] * 6, word_s=0.3))
    assert cue.lines == ("wordword wordword wordword",) * 2


def test_a_word_that_is_too_long_stands_alone() -> None:
    """On a line of its own: there is nothing to cut it at."""
    word = "x" * (LINE_CHARACTERS + 1)
    assert [line for cue in cues(_words("a", word, "b")) for line in cue.lines] == ["a", word, "b"]


def test_nothing_said_has_no_cue() -> None:
    """Silence is shown as nothing."""
    assert cues([]) == []
