"""Plan windows over a duration and stitch what was heard in them. Knows samples and times; no audio file, no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Vocabulary, Waveform
from seat.transcript import Transcript, Word
from seat.words import SpokenWord, sentences, spoken_words

SHORTEST = SAMPLE_RATE
"""Samples of the shortest waveform a model gets. NeMo's `transcribe()` pads to one second, on both sides; below two mel
frames its front end fails on CUDA, for the whole batch."""

QUIET_SPAN = SAMPLE_RATE // 20
"""Samples over which loudness is averaged when a quiet point is sought: 50 ms, about the closure of a plosive."""


SEAM_FRAMES = 2
"""Encoder frames by which two windows may differ on where the middle of a word is: one by what they hear, and less than
one because their frames do not begin at the same samples."""

SILENCE_LEVEL = 100
"""Samples up to this size, 50 dB below full scale, are silence behind speech."""

KEPT_TAIL = SAMPLE_RATE // 5
"""Samples of silence that stay behind the last loud one: 200 ms, in which a word fades."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A stretch of audio with a core and a context on both sides; all four in samples from the start of the audio.

    start ──context── core_start ═════core═════ core_stop ──context── stop
    """

    start: int
    """First sample that the encoder hears; negative where silence is put before the audio."""
    core_start: int
    """First sample that this window answers for."""
    core_stop: int
    """First sample that it no longer answers for."""
    stop: int
    """First sample that the encoder no longer hears; beyond the audio where silence is put behind it."""

    @property
    def samples(self) -> int:
        """Number of samples that the encoder hears."""
        return self.stop - self.start

    def chunk(self, audio: Waveform, frame: int) -> Chunk:
        """What is heard and which frames, of so many samples each, are the core's; for a window on that grid."""
        at_end = self.core_stop >= len(audio)
        return Chunk(
            waveform=self.cut(audio),
            first=0 if self.start < 0 else (self.core_start - self.start) // frame,
            stop=None if at_end else (self.core_stop - self.start) // frame,
        )

    def cut(self, audio: Waveform) -> Waveform:
        """Copy what the encoder hears, with silence where the window reaches beyond the audio."""
        before, behind = max(0, -self.start), max(0, self.stop - len(audio))
        heard = audio[max(0, self.start) : self.stop]
        return np.pad(heard, (before, behind)) if before or behind else heard


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowLimits:
    """How large windows are, in samples."""

    core: int
    """The longest core."""
    left: int
    """Context before the core."""
    right: int
    """Context behind the core; a cut may move back by as much to find a quiet point."""

    @classmethod
    def of_seconds(cls, core_s: float, context_s: tuple[float, float]) -> WindowLimits:
        """Limits from the settings' seconds."""
        left_s, right_s = context_s
        return cls(
            core=round(core_s * SAMPLE_RATE), left=round(left_s * SAMPLE_RATE), right=round(right_s * SAMPLE_RATE)
        )

    @property
    def longest(self) -> int:
        """Samples of the longest window, and of the longest audio that is not cut."""
        return self.left + self.core + self.right


def plan(samples: int, limits: WindowLimits, quietest: Callable[[int, int], int], grid: int = 1) -> list[Window]:
    """Cover audio with windows whose cores tile it.

    Args:
        samples: Length of the audio.
        limits: How large windows are. Audio that fits the longest window is one window without context.
        quietest: Called with a first and a last sample; returns the best place for a cut between them.
        grid: Samples of which every window's beginning and every cut is a multiple: those of an encoder frame, where a
            decoder goes on from core to core.

    Returns:
        Windows in order of time; none for empty audio.
    """
    if samples == 0:
        return []
    if samples <= limits.longest:
        before = max(0, SHORTEST - samples) // 2
        stop = max(samples, SHORTEST - before)
        return [Window(start=-before, core_start=0, core_stop=samples, stop=stop)]
    cuts = [0]
    while samples - cuts[-1] > limits.core:
        latest = cuts[-1] + limits.core
        quiet = quietest(latest - min(limits.right, limits.core // 2), latest)
        cuts.append(quiet // grid * grid)
    cuts.append(samples)
    return [
        Window(
            start=max(0, min(core_start - limits.left, core_stop - SHORTEST)) // grid * grid,
            core_start=core_start,
            core_stop=core_stop,
            stop=min(samples, core_stop + limits.right),
        )
        for core_start, core_stop in pairwise(cuts)
    ]


def quietest_point(audio: Waveform, first: int, last: int) -> int:
    """Find the middle of the quietest `QUIET_SPAN` between two samples, the latest one among equals.

    Where they are nearer than that, there is nothing to choose.
    """
    if last - first <= QUIET_SPAN:
        return last
    stretch = audio[first:last].astype(np.float32)
    energy = np.concatenate(([0.0], np.cumsum(stretch * stretch, dtype=np.float64)))
    loudness = energy[QUIET_SPAN:] - energy[:-QUIET_SPAN]
    quiet = np.flatnonzero(loudness <= loudness.min())
    return first + int(quiet[-1]) + QUIET_SPAN // 2


def without_tail(window: Window, audio: Waveform) -> Window | None:
    """End a window where its sound ends, for another try where nothing was heard in it.

    Parakeet models can come back empty from speech with silence behind it, because the silence counts as audio when the
    features are normalised.

    Returns:
        The shorter window; None where there is no sound in it, or no silence behind the sound.
    """
    loud = np.flatnonzero(np.abs(window.cut(audio).astype(np.int32)) > SILENCE_LEVEL)
    if not loud.size:
        return None
    stop = window.start + max(int(loud[-1]) + KEPT_TAIL, SHORTEST)
    return replace(window, stop=stop) if window.stop - stop > KEPT_TAIL else None


def stitch(
    windows: Sequence[Window],
    recognitions: Sequence[Recognition],
    vocabulary: Vocabulary,
    *,
    samples: int,
    language: str,
) -> Transcript:
    """Join what was heard in the windows of one file into one transcript.

    Args:
        windows: As `plan` gave them.
        recognitions: One per window.
        vocabulary: How tokens become words.
        samples: Length of the audio.
        language: ISO 639-1 code of the text.

    Returns:
        Words sorted by time that do not overlap, in sentences.
    """
    audio_s = samples / SAMPLE_RATE
    heard = [
        spoken_words(recognition, vocabulary, offset_s=window.start / SAMPLE_RATE, audio_s=audio_s)
        for window, recognition in zip(windows, recognitions, strict=True)
    ]
    return _transcript(_joined(windows, heard, vocabulary.frame_s), vocabulary, audio_s, language)


def follow(
    windows: Sequence[Window],
    recognitions: Sequence[Recognition],
    vocabulary: Vocabulary,
    *,
    samples: int,
    language: str,
) -> Transcript:
    """Join what a decoder heard that went on from core to core: its tokens are one sequence already.

    Args and result are those of `stitch`; the plan was made on the grid of the encoder's frames.
    """
    frame = round(vocabulary.frame_s * SAMPLE_RATE)
    first = windows[0].start if windows else 0
    whole = Recognition(
        tokens=tuple(token for heard in recognitions for token in heard.tokens),
        frames=tuple(
            (window.start - first) // frame + number
            for window, heard in zip(windows, recognitions, strict=True)
            for number in heard.frames
        ),
        durations=tuple(duration for heard in recognitions for duration in heard.durations),
        confidences=tuple(confidence for heard in recognitions for confidence in heard.confidences),
    )
    audio_s = samples / SAMPLE_RATE
    words = spoken_words(whole, vocabulary, offset_s=first / SAMPLE_RATE, audio_s=audio_s)
    return _transcript(words, vocabulary, audio_s, language)


def _transcript(words: Sequence[SpokenWord], vocabulary: Vocabulary, audio_s: float, language: str) -> Transcript:
    apart = list(without_overlap(words, vocabulary.frame_s))
    return Transcript(segments=sentences(apart), duration_s=audio_s, language=language)


def _joined(windows: Sequence[Window], heard: Sequence[list[SpokenWord]], frame_s: float) -> list[SpokenWord]:
    """Keep each window's words by their middle within its core, and mend the two faults a seam can have.

    A word that both sides place just inside is kept once, with its mark; one that both place just outside is not lost.
    """
    kept: list[SpokenWord] = []
    pending: SpokenWord | None = None
    for window, words in zip(windows, heard, strict=True):
        begin_s = window.core_start / SAMPLE_RATE
        end_s = math.inf if window is windows[-1] else window.core_stop / SAMPLE_RATE
        core = [word for word in words if begin_s <= word.middle_s < end_s]
        before = [word for word in words if word.middle_s < begin_s]
        after = [word for word in words if word.middle_s >= end_s]
        lost = pending and before and _same(pending, before[-1], frame_s)
        if pending and lost and not (kept and _same(kept[-1], pending, frame_s)):
            kept.append(pending)
        if kept and core and _same(kept[-1], core[0], frame_s):
            kept[-1] = max(kept[-1], core[0], key=lambda word: len(word.word.text))
            core = core[1:]
        kept += core
        pending = after[0] if after else None
    return kept


def _same(one: SpokenWord, other: SpokenWord, frame_s: float) -> bool:
    """Whether two windows heard the same word: at one time first, then with the same letters.

    They may place it a frame apart, and it may be one frame long; two words said one after the other share no time.
    """
    overlap_s = min(one.word.end_s, other.word.end_s) - max(one.word.start_s, other.word.start_s)
    shorter_s = min(one.word.end_s - one.word.start_s, other.word.end_s - other.word.start_s)
    near = abs(one.middle_s - other.middle_s) <= SEAM_FRAMES * frame_s
    return (near or overlap_s >= shorter_s / 2) and _letters(one.word) == _letters(other.word)


def _letters(word: Word) -> str:
    return "".join(character for character in word.text.casefold() if character.isalnum())


def without_overlap(words: Sequence[SpokenWord], frame_s: float) -> Iterator[SpokenWord]:
    """Move starts and ends that overlap, keeping every word at least one frame long."""
    reached_s = 0.0
    begins_s = [word.word.start_s for word in words[1:]]
    for word, next_s in zip(words, [*begins_s, math.inf][: len(words)], strict=True):
        start_s = max(word.word.start_s, reached_s)
        end_s = max(min(word.word.end_s, next_s), start_s + frame_s)
        reached_s = end_s
        yield replace(word, word=replace(word.word, start_s=start_s, end_s=end_s))
