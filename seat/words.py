"""Group a recognition's tokens into words, and words into sentences. Knows pieces and frames; no windows.

The rules are those of NeMo 3.0.0's `compute_rnnt_timestamps`, at a hundredth of its cost and off the GPU thread; but
NeMo takes every punctuation mark to the word before it, also those that open what follows, as in "Hola.¿Cómo".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from seat.recognizer import Recognition, Vocabulary
from seat.transcript import SENTENCE_ENDS, Segment, Token, Word

WORD_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
"""What SentencePiece puts before a piece that begins a word."""

CLOSING = frozenset(".,?!:;%)]}…»”")
"""Punctuation that belongs to the word before it even where a piece has a mark: not the '¿' of another question."""


@dataclass(slots=True)
class _Group:
    """Tokens of one word, while it grows."""

    start: int
    end: int
    tokens: list[Token]


def spoken_words(recognition: Recognition, vocabulary: Vocabulary, *, offset_s: float, audio_s: float) -> list[Word]:
    """Group tokens into words.

    Args:
        recognition: What the model heard in one waveform.
        vocabulary: How its tokens become words.
        offset_s: Where the waveform begins in the audio, in seconds; negative where silence was put before it.
        audio_s: Length of the audio in seconds; no word reaches beyond it.

    Returns:
        Words in order of time.
    """
    groups: list[_Group] = []
    previous_end = 0
    for token, frame, frames, probability in zip(
        recognition.tokens, recognition.frames, recognition.durations, recognition.confidences, strict=True
    ):
        letters, attaches, begins = _read(vocabulary.pieces[token], vocabulary)
        start, end = frame, frame + frames
        if attaches and vocabulary.predicts_durations and groups:
            start = end = previous_end
        if not groups or begins:
            groups.append(_Group(start=start, end=end, tokens=[]))
        groups[-1].end = end
        groups[-1].tokens.append(Token(number=token, text=letters, probability=probability))
        previous_end = end
    words = (_spoken(group, vocabulary.frame_s, offset_s, audio_s) for group in groups)
    return [word for word in words if word.text]


def last_begin(tokens: Sequence[int], vocabulary: Vocabulary) -> int:
    """Where the last word begins among tokens: it may go on in tokens to come, what stands before it cannot."""
    for place in range(len(tokens) - 1, 0, -1):
        if _read(vocabulary.pieces[tokens[place]], vocabulary)[2]:
            return place
    return 0


def _read(piece: str, vocabulary: Vocabulary) -> tuple[str, bool, bool]:
    """A piece's letters, whether it attaches to the word before it, and whether it begins a word."""
    letters = piece.replace(WORD_MARK, "")
    marked = piece.startswith(WORD_MARK)
    attaches = letters in vocabulary.punctuation and (not marked or letters in CLOSING)
    return letters, attaches, marked and not attaches


def _spoken(group: _Group, frame_s: float, offset_s: float, audio_s: float) -> Word:
    start_s = min(max(offset_s + group.start * frame_s, 0.0), max(audio_s - frame_s, 0.0))
    end_s = max(min(offset_s + group.end * frame_s, audio_s), start_s + frame_s)
    return Word(
        text="".join(token.text for token in group.tokens),
        start_s=start_s,
        end_s=end_s,
        confidence=sum(token.probability for token in group.tokens) / len(group.tokens),
        tokens=tuple(group.tokens),
    )


def without_overlap(words: Sequence[Word], frame_s: float, audio_s: float = math.inf) -> list[Word]:
    """Move starts and ends that overlap, keeping every word at least one frame long, as far as the audio allows it.

    Args:
        words: In order of time.
        frame_s: Seconds of one encoder frame.
        audio_s: Length of the audio in seconds; no word reaches beyond it.
    """
    apart: list[Word] = []
    for word, after in zip_longest(words, words[1:]):
        start_s = max(word.start_s, apart[-1].end_s) if apart else word.start_s
        end_s = max(min(word.end_s, after.start_s if after else math.inf), start_s + frame_s)
        apart.append(replace(word, start_s=start_s, end_s=end_s))
    limit_s = audio_s
    for place in range(len(apart) - 1, -1, -1):  # several words in the last frame were moved beyond the end
        word = apart[place]
        if word.end_s <= limit_s:
            break
        start_s = max(0.0, min(word.start_s, limit_s - frame_s))
        apart[place] = replace(word, start_s=start_s, end_s=limit_s)
        limit_s = start_s
    return apart


def sentences(words: Iterable[Word]) -> tuple[Segment, ...]:
    """Cut words into segments after each sentence end."""
    segments: list[Segment] = []
    open_words: list[Word] = []
    for word in words:
        open_words.append(word)
        if word.text.endswith(SENTENCE_ENDS):
            segments.append(_segment(open_words))
            open_words = []
    if open_words:
        segments.append(_segment(open_words))
    return tuple(segments)


def _segment(words: list[Word]) -> Segment:
    tokens = [token for word in words for token in word.tokens]
    return Segment(
        words=tuple(words),
        tokens=tuple(token.number for token in tokens),
        avg_logprob=sum(token.logprob for token in tokens) / len(tokens),
    )
