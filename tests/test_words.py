"""Tokens become words, and words sentences."""

import math

import pytest

from seat.recognizer import Recognition, Vocabulary
from seat.words import last_begin, sentences, spoken_words, without_overlap

PIECES = ("<unk>", "▁he", "llo", "▁world", ".", ",", "▁", "5", "▁?", "'s", "▁¿", "¿", "▁'", "em")


def _vocabulary(*, tdt: bool = False) -> Vocabulary:
    return Vocabulary(pieces=PIECES, punctuation=frozenset(".,?¿'"), frame_s=0.08, predicts_durations=tdt)


def _recognition(*rows: tuple[str, int, int]) -> Recognition:
    return Recognition(
        tokens=tuple(PIECES.index(piece) for piece, _, _ in rows),
        frames=tuple(frame for _, frame, _ in rows),
        durations=tuple(duration for _, _, duration in rows),
        confidences=(0.5,) * len(rows),
    )


def _words(*rows: tuple[str, int, int], tdt: bool = False) -> list[tuple[str, int, int]]:
    words = spoken_words(_recognition(*rows), _vocabulary(tdt=tdt), offset_s=0, audio_s=100)
    return [(w.text, round(w.start_s / 0.08), round(w.end_s / 0.08)) for w in words]


@pytest.mark.parametrize(
    "rows, expected",
    [
        ([], []),
        ([("▁he", 3, 1), ("llo", 5, 1)], [("hello", 3, 6)]),
        ([("▁he", 3, 1), ("llo", 5, 1), ("▁world", 9, 1)], [("hello", 3, 6), ("world", 9, 10)]),
        ([("▁he", 3, 1), ("llo", 5, 1), (".", 8, 1)], [("hello.", 3, 9)]),
        ([("▁he", 3, 1), ("▁?", 5, 1)], [("he?", 3, 6)]),
        ([("▁", 3, 1), ("5", 4, 1)], [("5", 3, 5)]),
        ([("llo", 2, 1)], [("llo", 2, 3)]),
        ([("▁world", 2, 1), ("'s", 4, 1)], [("world's", 2, 5)]),
        ([("▁", 2, 1)], []),
        ([("▁he", 2, 1), (".", 3, 1), ("▁¿", 5, 1), ("llo", 6, 1), ("▁?", 7, 1)], [("he.", 2, 4), ("¿llo?", 5, 8)]),
        ([("▁he", 2, 1), ("▁", 4, 1), ("¿", 5, 1), ("llo", 6, 1)], [("he", 2, 3), ("¿llo", 4, 7)]),
        ([("▁he", 2, 1), ("▁'", 5, 1), ("em", 6, 1)], [("he", 2, 3), ("'em", 5, 7)]),
    ],
)
def test_pieces_join_into_words(rows: list[tuple[str, int, int]], expected: list[tuple[str, int, int]]) -> None:
    """A word lasts from its first token to the frame after its last; punctuation belongs to the word before it."""
    assert _words(*rows) == expected


def test_with_durations_a_word_ends_where_the_model_says() -> None:
    """TDT predicts how many frames a token covers."""
    assert _words(("▁he", 3, 2), ("llo", 5, 4), tdt=True) == [("hello", 3, 9)]


def test_with_durations_punctuation_has_no_width() -> None:
    """TDT models place a full stop long after the word, in the silence; NeMo takes the word's own end."""
    assert _words(("▁he", 3, 2), (".", 20, 4), tdt=True) == [("he.", 3, 5)]


def test_times_are_moved_by_where_the_waveform_begins() -> None:
    """Silence put before a short clip does not shift its words."""
    word = spoken_words(_recognition(("▁he", 5, 1)), _vocabulary(), offset_s=-0.2, audio_s=0.6)[0]
    assert (word.start_s, word.end_s) == pytest.approx((0.2, 0.28))


@pytest.mark.parametrize("frame", [0, 3, 20])
def test_no_word_leaves_the_audio(frame: int) -> None:
    """Also where the model emits in the padding, a word lies inside the audio and is a frame long."""
    word = spoken_words(_recognition(("▁he", frame, 1)), _vocabulary(), offset_s=-0.2, audio_s=0.5)[0]
    assert word.start_s >= 0
    assert word.end_s <= 0.5
    assert word.end_s - word.start_s >= 0.08 - 1e-9


def test_words_of_the_last_frame_stay_inside_the_audio() -> None:
    """A transducer may say several words in one frame; they are put one before the other, in order."""
    words = spoken_words(
        _recognition(("▁he", 3, 1), ("▁world", 11, 1), ("▁he", 12, 1), ("▁world", 12, 1), ("▁he", 12, 1)),
        _vocabulary(),
        offset_s=0,
        audio_s=1.0,
    )
    apart = without_overlap(words, 0.08, 1.0)
    assert [(word.start_s, word.end_s) for word in apart] == [
        pytest.approx(times) for times in [(0.24, 0.32), (0.68, 0.76), (0.76, 0.84), (0.84, 0.92), (0.92, 1.0)]
    ]


def test_more_words_than_the_audio_has_frames_stay_inside_it_too() -> None:
    """However short they get."""
    words = spoken_words(_recognition(*[("▁he", 0, 1)] * 5), _vocabulary(), offset_s=0, audio_s=0.2)
    apart = without_overlap(words, 0.08, 0.2)
    assert all(0 <= word.start_s <= word.end_s <= 0.2 for word in apart)
    assert [word.start_s for word in apart] == sorted(word.start_s for word in apart)


def test_confidence_is_the_mean_of_the_tokens() -> None:
    """As in NeMo's word confidence with its mean aggregation."""
    recognition = Recognition(tokens=(1, 2), frames=(0, 1), durations=(1, 1), confidences=(0.25, 0.75))
    assert spoken_words(recognition, _vocabulary(), offset_s=0, audio_s=1)[0].confidence == 0.5


@pytest.mark.parametrize("confidence", [0.0, 1e-300, 0.5, 1.0, 1.0000001])
def test_logarithms_are_finite_and_never_positive(confidence: float) -> None:
    """No probability, however rounded, becomes a number that JSON cannot hold."""
    recognition = Recognition(tokens=(1,), frames=(0,), durations=(1,), confidences=(confidence,))
    (token,) = spoken_words(recognition, _vocabulary(), offset_s=0, audio_s=1)[0].tokens
    assert math.isfinite(token.logprob)
    assert token.logprob <= 0


def test_a_sentence_ends_at_its_mark() -> None:
    """Commas do not end one; what follows the last mark is one too."""
    words = spoken_words(
        _recognition(("▁he", 0, 1), (",", 1, 1), ("▁he", 2, 1), (".", 2, 1), ("▁world", 5, 1)),
        _vocabulary(),
        offset_s=0,
        audio_s=1,
    )
    assert [segment.text for segment in sentences(words)] == ["he, he.", "world"]


def test_a_segment_lasts_from_its_first_to_its_last_word() -> None:
    """Every word lies inside its segment."""
    words = spoken_words(_recognition(("▁he", 1, 1), ("▁he", 9, 1)), _vocabulary(), offset_s=0, audio_s=9)
    (segment,) = sentences(words)
    assert (segment.start_s, segment.end_s) == (words[0].start_s, words[1].end_s)
    assert segment.tokens == (1, 1)
    assert segment.avg_logprob == pytest.approx(math.log(0.5))


@pytest.mark.parametrize(
    "pieces, place",
    [
        ([], 0),
        (["▁he"], 0),
        (["llo"], 0),
        (["▁he", "llo"], 0),
        (["▁he", "llo", "▁world"], 2),
        (["▁he", ".", "▁world", "▁?"], 2),
        (["▁he", "▁"], 1),
    ],
)
def test_only_the_last_word_can_go_on(pieces: list[str], place: int) -> None:
    """It begins at its mark; a punctuation mark never begins one, a lone mark does."""
    assert last_begin([PIECES.index(piece) for piece in pieces], _vocabulary()) == place


def test_a_words_letters_are_its_tokens() -> None:
    """Whoever shows tokens shows the text."""
    (word,) = spoken_words(
        _recognition(("▁he", 0, 1), ("llo", 1, 1), ("▁?", 2, 1)), _vocabulary(), offset_s=0, audio_s=1
    )
    assert [token.text for token in word.tokens] == ["he", "llo", "?"]
    assert word.text == "hello?"
