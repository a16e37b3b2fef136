"""Group a recognition's tokens into words, and words into sentences. Knows pieces and frames; no windows.

The rules are those of NeMo 3.0.0's `compute_rnnt_timestamps`, at a hundredth of its cost and off the GPU thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from seat.recognizer import Recognition, Vocabulary
from seat.transcript import Segment, Word

SENTENCE_ENDS = (".", "?", "!")
"""Last characters of a word after which NeMo ends a segment."""

WORD_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
"""What SentencePiece puts before a piece that begins a word."""

_LEAST_PROBABILITY = 1e-10
"""Floor under the logarithm: a probability that rounds to zero must not become minus infinity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenWord:
    """A word together with the tokens it was made of."""

    word: Word
    tokens: tuple[int, ...]
    """Vocabulary numbers."""
    logprobs: tuple[float, ...]
    """Natural logarithms of the tokens' probabilities; finite, at most 0."""

    @property
    def middle_s(self) -> float:
        """Halfway between start and end, in seconds."""
        return (self.word.start_s + self.word.end_s) / 2


@dataclass(slots=True)
class _Group:
    """Tokens of one word, while it grows."""

    start: int
    end: int
    text: str = ""
    tokens: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()


def begins_word(piece: str, vocabulary: Vocabulary) -> bool:
    """Whether a piece begins a word; punctuation never does."""
    return piece.startswith(WORD_MARK) and piece.replace(WORD_MARK, "") not in vocabulary.punctuation


def spoken_words(
    recognition: Recognition, vocabulary: Vocabulary, *, offset_s: float, audio_s: float
) -> list[SpokenWord]:
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
        piece = vocabulary.pieces[token]
        letters = piece.replace(WORD_MARK, "")
        attaches = letters in vocabulary.punctuation
        start, end = frame, frame + frames
        if attaches and vocabulary.predicts_durations and groups:
            start = end = previous_end
        if not groups or begins_word(piece, vocabulary):
            groups.append(_Group(start=start, end=end))
        group = groups[-1]
        group.text += letters
        group.end = end
        group.tokens += (token,)
        group.probabilities += (probability,)
        previous_end = end
    return [_spoken(group, vocabulary.frame_s, offset_s, audio_s) for group in groups if group.text]


def _spoken(group: _Group, frame_s: float, offset_s: float, audio_s: float) -> SpokenWord:
    start_s = min(max(offset_s + group.start * frame_s, 0.0), max(audio_s - frame_s, 0.0))
    end_s = max(min(offset_s + group.end * frame_s, audio_s), start_s + frame_s)
    return SpokenWord(
        word=Word(
            text=group.text,
            start_s=start_s,
            end_s=end_s,
            confidence=sum(group.probabilities) / len(group.probabilities),
        ),
        tokens=group.tokens,
        logprobs=tuple(min(0.0, math.log(max(p, _LEAST_PROBABILITY))) for p in group.probabilities),
    )


def sentences(words: Iterable[SpokenWord]) -> tuple[Segment, ...]:
    """Cut words into segments after each sentence end."""
    segments: list[Segment] = []
    open_words: list[SpokenWord] = []
    for word in words:
        open_words.append(word)
        if word.word.text.endswith(SENTENCE_ENDS):
            segments.append(_segment(open_words))
            open_words = []
    if open_words:
        segments.append(_segment(open_words))
    return tuple(segments)


def _segment(words: list[SpokenWord]) -> Segment:
    logprobs = [logprob for word in words for logprob in word.logprobs]
    return Segment(
        words=tuple(word.word for word in words),
        tokens=tuple(token for word in words for token in word.tokens),
        avg_logprob=sum(logprobs) / len(logprobs),
    )
