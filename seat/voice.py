"""Tell speech from silence in a whole file, by loudness, and cut it there. Knows samples and levels; no model.

What is speech is told from the file's own range, so that a quiet recording is cut like a loud one: a threshold of 0 is
the level of its quietest frames, 1 that of its loudest. A stream, whose range nobody knows yet, has `seat.vad`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from seat.loudness import FRAME, levels_db
from seat.recognizer import SAMPLE_RATE, Waveform

BLOCK_FRAMES: Final = 3000
"""Frames that are looked at together: a minute, so that an hour needs no second copy of itself."""

EXTREME_FRAMES: Final = 10
"""Frames that are quieter than the range's lower end, and louder than its upper: 0.2 s, so that no click decides."""

LEAST_RANGE_DB: Final = 10.0
"""Decibels between the ends of a range below which nothing in a file can be called silence."""

PACKED_GAP: Final = 3 * SAMPLE_RATE
"""Samples of silence that stretches in one window may have between them; hearing more costs more than it tells."""

Stretch = tuple[int, int]
"""First sample of some speech, and the first behind it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunking:
    """How audio is cut by speech and silence."""

    threshold: float
    """How loud speech is within the file's range of decibels, 0 to 1."""
    padding_s: float
    """Seconds that are heard before speech."""
    silence_s: float
    """Seconds of silence that end a stretch of speech; they are heard too."""
    packed: bool
    """Whether short stretches share a window; else each has its own."""


AUTO: Final = Chunking(threshold=0.3, padding_s=0.3, silence_s=0.5, packed=True)
"""Where the choice is ours: lower and longer than OpenAI's defaults of 0.5 and 0.2 s, so that no soft syllable is
silence."""


def speech_stretches(audio: Waveform, chunking: Chunking) -> list[Stretch]:
    """Find speech.

    Returns:
        Stretches in order of time that do not overlap; all of the audio where no silence can be told from speech.
    """
    levels = _levels(audio)
    if not levels.size:
        return []
    extreme = min(EXTREME_FRAMES, levels.size)
    ordered = np.sort(levels)
    low, high = float(ordered[extreme - 1]), float(ordered[-extreme])
    if high - low < LEAST_RANGE_DB:
        return [(0, len(audio))]
    loud = levels >= low + chunking.threshold * (high - low)
    edges = np.flatnonzero(np.diff(loud, prepend=False, append=False)) * FRAME
    silence, padding = round(chunking.silence_s * SAMPLE_RATE), round(chunking.padding_s * SAMPLE_RATE)
    stretches: list[Stretch] = []
    spoken_until = 0
    for start, stop in edges.reshape(-1, 2).tolist():
        if stretches and start - spoken_until < silence:
            begin = stretches.pop()[0]
        else:
            begin = max(start - padding, stretches[-1][1] if stretches else 0)
        spoken_until = stop
        stretches.append((begin, min(stop + silence, len(audio))))
    return stretches


def packed(stretches: Sequence[Stretch], longest: int) -> list[Stretch]:
    """Join neighbours while together they are no longer than so many samples, and not too far apart."""
    packs: list[Stretch] = []
    for start, stop in stretches:
        joins = packs and stop - packs[-1][0] <= longest and start - packs[-1][1] <= PACKED_GAP
        packs.append((packs.pop()[0] if joins else start, stop))
    return packs


def _levels(audio: Waveform) -> NDArray[np.float64]:
    """Decibels of every frame; the last one is filled up with its last sample."""
    step = BLOCK_FRAMES * FRAME
    blocks = (audio[first : first + step] for first in range(0, len(audio), step))
    levels = [levels_db(np.pad(block, (0, -len(block) % FRAME), "edge")) for block in blocks]
    return np.concatenate(levels or [np.zeros(0)])
