"""Words are counted as wrong where they differ, not where they are spelt differently."""

import pytest

from seat.ab.words import Errors, accuracy, errors, normalised


@pytest.mark.parametrize(
    "one, other",
    [
        ("Seven three alpha. Stop please.", "7 3 alpha, stop please"),
        ("Colour it, Mr. Brown!", "color it mister brown"),
        ("He isn't here.", "he is not here"),
        ("Um, yes.", "yes"),
    ],
)
def test_spelling_is_no_difference(one: str, other: str) -> None:
    """Whisper's English rules: case, punctuation, numbers, British spelling, contractions, hesitations."""
    assert normalised(one).replace(" ", "") == normalised(other).replace(" ", "")


@pytest.mark.parametrize(
    "said, heard, expected",
    [
        ("stop please now", "Stop, please now.", Errors(wrong=0, words=3)),
        ("stop please now", "stop now", Errors(wrong=1, words=3)),
        ("stop please now", "stop pleased now now", Errors(wrong=2, words=3)),
        ("stop please now", "", Errors(wrong=3, words=3)),
        ("", "thank you", Errors(wrong=2, words=0)),
        ("", "", Errors(wrong=0, words=0)),
    ],
)
def test_wrong_words_are_counted(said: str, heard: str, expected: Errors) -> None:
    """Replaced, left out and invented ones alike; where nothing is said, each that is heard."""
    assert expected == errors(said, heard)


SAID = {number: f"alpha bravo charlie delta number {number}" for number in range(12)}


def test_the_same_words_show_no_difference() -> None:
    """Whatever they are worth."""
    found = accuracy(SAID, SAID, {number: text.upper() for number, text in SAID.items()})
    assert found is not None
    assert (found.a_wer, found.b_wer, found.same, found.clips) == (0, 0, 12, 12)
    assert found.verdict == "no difference shown"


def test_a_side_that_is_worse_everywhere_is_named() -> None:
    """One word of six wrong in every clip."""
    worse = {number: text.replace("delta", "echo") for number, text in SAID.items()}
    found = accuracy(SAID, worse, SAID)
    assert found is not None
    assert (round(found.a_wer, 3), found.b_wer, found.verdict) == (0.167, 0, "B is more accurate")


def test_one_bad_clip_of_twelve_shows_no_difference() -> None:
    """It might as well have been among the other's."""
    found = accuracy(SAID, SAID | {3: "echo echo bravo charlie delta number 3"}, SAID)
    assert found is not None
    assert found.verdict == "no difference shown"


def test_nothing_said_is_nothing_to_count() -> None:
    """A folder without words cannot tell who is right."""
    assert accuracy({}, {}, {}) is None
