"""Join what was heard in the windows of one file, as it comes. Knows words and times; no audio, no model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from seat.recognizer import NOTHING, SAMPLE_RATE, Recognition, Vocabulary, cut, joined
from seat.transcript import Transcript, Word
from seat.windows import Window
from seat.words import last_begin, sentences, spoken_words, without_overlap

Join = Literal["independent", "carried"]
"""Windows side by side, words kept by their times; or one after the other, the decoder going on from core to core."""

SEAM_FRAMES = 2
"""Encoder frames by which two windows may differ on where the middle of a word is: one by what they hear, and less than
one because their frames do not begin at the same samples."""


class Stitcher:
    """Takes recognitions in order of time, and gives every word as soon as nothing that follows can change it.

    A word that was given keeps its letters and tokens; `transcript` only moves apart the times of words that overlap.
    """

    def __init__(
        self, windows: Sequence[Window], vocabulary: Vocabulary, *, samples: int, language: str, join: Join
    ) -> None:
        """Begin with nothing heard.

        Args:
            windows: As `seat.windows.plan` gave them; for 'carried' on the grid of the encoder's frames.
            vocabulary: How tokens become words.
            samples: Length of the audio.
            language: ISO 639-1 code of the text.
            join: How the windows were heard.
        """
        self._audio_s = samples / SAMPLE_RATE
        self._language = language
        self._frame_s = vocabulary.frame_s
        self._seams = (_Carried if join == "carried" else _Independent)(windows, vocabulary, self._audio_s)
        self._settled: list[Word] = []

    def take(self, recognition: Recognition) -> list[Word]:
        """Take what was heard in the next window.

        Returns:
            Words that are settled by it, in order of time; with the last window, all that were not.
        """
        settled = self._seams.take(recognition)
        self._settled += settled
        return settled

    def transcript(self) -> Transcript:
        """All settled words, in sentences; sorted by time, without overlap."""
        apart = without_overlap(self._settled, self._frame_s, self._audio_s)
        return Transcript(segments=sentences(apart), duration_s=self._audio_s, language=self._language)


class _Independent:
    """Keeps each window's words by their middle within its core, and mends the two faults a seam can have.

    A word that both sides place just inside is kept once, with its mark; one that both place just outside is not lost.
    """

    def __init__(self, windows: Sequence[Window], vocabulary: Vocabulary, audio_s: float) -> None:
        self._windows, self._vocabulary, self._audio_s = windows, vocabulary, audio_s
        self._taken = 0
        self._open: list[Word] = []  # the last word, where the seam behind it can still change it
        self._outside: Word | None = None  # the first word behind the last window's core

    def take(self, recognition: Recognition) -> list[Word]:
        window = self._windows[self._taken]
        self._taken += 1
        last, frame_s = self._taken == len(self._windows), self._vocabulary.frame_s
        words = spoken_words(recognition, self._vocabulary, offset_s=window.start / SAMPLE_RATE, audio_s=self._audio_s)
        begin_s = window.core_start / SAMPLE_RATE
        core_stop_s = window.core_stop / SAMPLE_RATE
        end_s = core_stop_s if core_stop_s < self._audio_s else math.inf
        before = [word for word in words if word.middle_s < begin_s]
        core = [word for word in words if begin_s <= word.middle_s < end_s]
        after = [word for word in words if word.middle_s >= end_s]
        kept = self._open
        outside, self._outside = self._outside, after[0] if after else None
        both_outside = outside and before and _same(outside, before[-1], frame_s)
        if outside and both_outside and not (kept and _same(kept[-1], outside, frame_s)):
            kept = [*kept, outside]
        if kept and core and _same(kept[-1], core[0], frame_s):
            once = max(kept[-1], core[0], key=lambda word: len(word.text))
            kept, core = kept[:-1], [once, *core[1:]]
        kept = kept + core
        settled = len(kept) - 1 if core and not last else len(kept)
        self._open = kept[settled:]
        return kept[:settled]


class _Carried:
    """Reads on in the tokens of a decoder that went on from core to core: they are one sequence already."""

    def __init__(self, windows: Sequence[Window], vocabulary: Vocabulary, audio_s: float) -> None:
        self._windows, self._vocabulary, self._audio_s = windows, vocabulary, audio_s
        self._frame = round(vocabulary.frame_s * SAMPLE_RATE)
        self._taken = 0
        self._open = NOTHING  # tokens of a word that may go on

    def take(self, recognition: Recognition) -> list[Word]:
        first, window = self._windows[0].start, self._windows[self._taken]
        self._taken += 1
        shift = (window.start - first) // self._frame
        shifted = replace(recognition, frames=tuple(shift + frame for frame in recognition.frames))
        heard = joined(self._open, shifted)
        last = self._taken == len(self._windows)
        settled, self._open = cut(heard, len(heard.tokens) if last else last_begin(heard.tokens, self._vocabulary))
        return spoken_words(settled, self._vocabulary, offset_s=first / SAMPLE_RATE, audio_s=self._audio_s)


def _same(one: Word, other: Word, frame_s: float) -> bool:
    """Whether two windows heard the same word: at one time first, then with the same letters.

    They may place it a frame apart, and it may be one frame long; two words said one after the other share no time.
    """
    overlap_s = min(one.end_s, other.end_s) - max(one.start_s, other.start_s)
    shorter_s = min(one.end_s - one.start_s, other.end_s - other.start_s)
    near = abs(one.middle_s - other.middle_s) <= SEAM_FRAMES * frame_s
    return (near or overlap_s >= shorter_s / 2) and _letters(one) == _letters(other)


def _letters(word: Word) -> str:
    return "".join(character for character in word.text.casefold() if character.isalnum())
