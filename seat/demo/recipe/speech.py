"""Hold stretches of speech with known word times. Knows where words begin and end; no synthesizer, no model."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
"""Hz, of everything in the recipe."""
Samples = NDArray[np.int16]
Mark = tuple[str, int, int]
"""A word with its first sample and the sample after its last."""

EDGE_FRAME = 160
"""Samples: 10 ms, the grain of finding a word's ends."""
EDGE_DECIBELS = 38.0
"""A word begins and ends where its 10 ms power rises above this much below its loudest."""
NOISE_DECIBELS = 8.0
"""... and above the noise of its recording by this much."""
CLICK_FRAMES, QUIET_FRAMES = 3, 8
"""A sound shorter than 30 ms before 80 ms of quiet begins no word: it is a click, as where a recording was cut off.
A plosive is followed by its vowel sooner."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A stretch of speech by one voice: one word or several said in one breath."""

    voice: str
    """Who says it."""
    samples: Samples
    """16 kHz mono, beginning at the first word's onset and ending at the last word's end."""
    marks: tuple[Mark, ...]
    """The words in order."""


def edges(samples: NDArray[np.float32]) -> tuple[int, int]:
    """Find first and last sample of the speech in a recording of one word.

    Args:
        samples: (n,) at 16 kHz.

    Returns:
        Begin and end in samples; (0, 0) for silence.
    """
    count = len(samples) // EDGE_FRAME
    if not count:
        return 0, 0
    power = np.square(samples[: count * EDGE_FRAME].reshape(count, EDGE_FRAME)).mean(1) + 1e-10
    level = 10 * np.log10(power)
    threshold = max(level.max() - EDGE_DECIBELS, min(np.percentile(level, 5) + NOISE_DECIBELS, level.max() - 22.0))
    loud = np.flatnonzero(level >= threshold)
    if level.max() <= -90.0 or not len(loud):
        return 0, 0
    pauses = np.flatnonzero(np.diff(loud) > QUIET_FRAMES)
    first = loud[pauses[0] + 1] if len(pauses) and pauses[0] + 1 < CLICK_FRAMES else loud[0]
    return int(first) * EDGE_FRAME, int(loud[-1] + 1) * EDGE_FRAME


def unit(voice: str, samples: NDArray[np.float32], words: Sequence[Mark]) -> Unit | None:
    """Trim words to where they sound and cut the recording to them.

    Args:
        voice: Who says it.
        samples: (n,) at 16 kHz in [-1, 1].
        words: Each with a stretch that holds it and no other word.

    Returns:
        The unit at full scale, or None if a word cannot be heard.
    """
    marks: list[Mark] = []
    for word, begin, end in words:
        first, last = edges(samples[begin:end])
        if last - first < 4 * EDGE_FRAME:
            return None
        marks.append((word, begin + first, begin + last))
    start, stop = marks[0][1], marks[-1][2]
    cut = samples[start:stop] / (np.abs(samples[start:stop]).max() + 1e-9)
    return Unit(
        voice=voice,
        samples=np.round(cut * 32_000).astype(np.int16),
        marks=tuple((word, begin - start, end - start) for word, begin, end in marks),
    )
