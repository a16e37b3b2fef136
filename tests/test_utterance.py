"""Words that grow."""

from hypothesis import given
from hypothesis import strategies as st

from seat.recognizer import Recognition, Vocabulary
from seat.utterance import Utterance, split
from seat.words import spoken_words

VOCABULARY = Vocabulary(
    pieces=("▁se", "ven", "▁", "ty", ".", "▁four", "▁."),
    punctuation=frozenset({"."}),
    frame_s=0.08,
    predicts_durations=False,
)


def heard(tokens: list[int], first: int = 0) -> Recognition:
    """Tokens, one each third frame."""
    frames = tuple(first + 3 * place for place in range(len(tokens)))
    return Recognition(
        tokens=tuple(tokens), frames=frames, durations=(1,) * len(tokens), confidences=(0.5,) * len(tokens)
    )


@given(st.lists(st.integers(0, 6), max_size=20), st.lists(st.integers(1, 5), max_size=8))
def test_parts_make_up_the_whole(tokens: list[int], lengths: list[int]) -> None:
    """What is added each time joins to the final text; the stable text only grows; words are those of one pass."""
    utterance, added, stable, place = Utterance(VOCABULARY), "", "", 0
    for length in [*lengths, len(tokens)]:
        added += utterance.add(heard(tokens[place : place + length], 3 * place))
        place = min(place + length, len(tokens))
        snapshot = utterance.snapshot()
        assert snapshot.stable.startswith(stable)
        assert snapshot.stable == snapshot.text == added
        stable = snapshot.stable
    words = spoken_words(heard(tokens), VOCABULARY, offset_s=0, audio_s=1e9)
    assert [word.text for word in snapshot.words] == [word.text for word in words]
    assert [word.tokens for word in snapshot.words] == [word.tokens for word in words]


def test_what_was_heard_ahead_is_for_show() -> None:
    """It may finish the last word and bring others; none of it stays, and none of it is stable."""
    utterance = Utterance(VOCABULARY)
    assert utterance.add(heard([5, 0])) == "four se"
    snapshot = utterance.snapshot(heard([1, 4, 5], 9))
    assert (snapshot.text, snapshot.stable, snapshot.closed) == ("four seven. four", "four se", 1)
    assert utterance.snapshot().text == "four se"


def test_times_do_not_overlap() -> None:
    """Two words that share a frame are one after the other, as in a file."""
    utterance = Utterance(VOCABULARY)
    together = Recognition(tokens=(5, 5), frames=(10, 10), durations=(1, 1), confidences=(1.0, 1.0))
    utterance.add(together)
    first, second = (word for word in utterance.snapshot().words)
    assert first.start_s < first.end_s <= second.start_s < second.end_s


def test_a_recognition_is_cut_at_a_frame() -> None:
    """The token at the stop belongs to what follows; frames move by the shift."""
    firm, ahead = split(heard([0, 1, 5]), 3, shift=100)
    assert (firm.tokens, firm.frames) == ((0,), (100,))
    assert (ahead.tokens, ahead.frames) == ((1, 5), (103, 106))
    assert split(heard([0, 1]), None, shift=0)[0] == heard([0, 1])
