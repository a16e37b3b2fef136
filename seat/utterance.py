"""Grow the words of one utterance while it is heard. Knows tokens and words; no audio, no model.

A token that was decoded with all of its right context is firm: text only ever grows behind it. What was decoded ahead
of that, for show, is forgotten with the next chunk.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seat.recognizer import NOTHING, Recognition, Vocabulary, cut, joined
from seat.transcript import Word
from seat.words import last_begin, spoken_words, without_overlap


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """An utterance as it stands."""

    words: tuple[Word, ...]
    """All words, in order of time, those heard ahead included."""
    closed: int
    """How many of them, from the first, never change."""
    stable: str
    """The beginning of the text that never changes."""

    @property
    def text(self) -> str:
        """The whole."""
        return _text(self.words)


class Utterance:
    """Tokens by and by, words at any time. Frames are counted from the beginning of the stream."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._closed: list[Word] = []
        self._closed_text = ""
        self._open = NOTHING

    def __bool__(self) -> bool:
        return bool(self._closed or self._open.tokens)

    @property
    def stable(self) -> str:
        """Text that never changes: the beginning of every later one."""
        return " ".join(filter(None, (self._closed_text, _text(self._words(self._open)))))

    def add(self, heard: Recognition) -> str:
        """Take in firm tokens, and return the text that they add."""
        before = self.stable
        self._open = joined(self._open, heard)
        closing, self._open = cut(self._open, last_begin(self._open.tokens, self._vocabulary))
        closed = self._words(closing)
        self._closed += closed
        self._closed_text = " ".join(filter(None, (self._closed_text, _text(closed))))
        return self.stable[len(before) :]

    def snapshot(self, ahead: Recognition = NOTHING) -> Snapshot:
        """All words so far, and those that tokens heard ahead would make."""
        words = [*self._closed, *self._words(joined(self._open, ahead))]
        return Snapshot(
            words=tuple(without_overlap(words, self._vocabulary.frame_s)),
            closed=len(self._closed),
            stable=self.stable,
        )

    def _words(self, heard: Recognition) -> list[Word]:
        return spoken_words(heard, self._vocabulary, offset_s=0.0, audio_s=math.inf)


def split(heard: Recognition, stop: int | None, shift: int) -> tuple[Recognition, Recognition]:
    """What was heard before a frame, and from it on; everything before None. Frames are moved by the shift."""
    place = len(heard.frames) if stop is None else bisect_left(heard.frames, stop)
    return cut(replace(heard, frames=tuple(frame + shift for frame in heard.frames)), place)


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)
