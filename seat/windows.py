"""Plan windows over a duration. Knows samples and where sound is quiet; no audio file, no model, no words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from seat.recognizer import SAMPLE_RATE, Chunk, Waveform

SHORTEST = SAMPLE_RATE
"""Samples of the shortest waveform a model gets. NeMo's `transcribe()` pads to one second, on both sides; below two mel
frames its front end fails on CUDA, for the whole batch."""

QUIET_SPAN = SAMPLE_RATE // 20
"""Samples over which loudness is averaged when a quiet point is sought: 50 ms, about the closure of a plosive."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveWindow:
    """How large windows of a stream are, in samples; each a multiple of an encoder frame."""

    left: int
    """Context before the chunk."""
    chunk: int
    """Whose words become firm."""
    right: int
    """Context behind it."""
    frame: int
    """Samples of an encoder frame."""

    @classmethod
    def of_seconds(cls, seconds: tuple[float, float, float], frame: int) -> LiveWindow:
        """From the setting's seconds, rounded to whole frames."""
        left, chunk, right = (round(part * SAMPLE_RATE / frame) * frame for part in seconds)
        return cls(left=left, chunk=max(frame, chunk), right=right, frame=frame)


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
    cuts = _cuts(0, samples, limits, quietest, grid)
    return [
        Window(
            start=max(0, min(core_start - limits.left, core_stop - SHORTEST)) // grid * grid,
            core_start=core_start,
            core_stop=core_stop,
            stop=min(samples, core_stop + limits.right),
        )
        for core_start, core_stop in pairwise(cuts)
    ]


def plan_within(
    stretches: Sequence[tuple[int, int]],
    samples: int,
    limits: WindowLimits,
    quietest: Callable[[int, int], int],
    grid: int = 1,
) -> list[Window]:
    """Cover stretches of speech with windows; what lies between them belongs to no core.

    Args:
        stretches: First and stop sample of each, in order of time, without overlap.
        samples: Length of the audio, at least `SHORTEST`; the other arguments are as for `plan`.
        limits: At the ends of a stretch there is silence, so no more than a second of it is heard as context: enough
            that no part of another stretch's word, cut in two by the window's end, lies in the core.
        quietest: As for `plan`.
        grid: As for `plan`.
    """
    windows = []
    for first, stop in stretches:
        cuts = _cuts(first // grid * grid, stop, limits, quietest, grid)
        for core_start, core_stop in pairwise(cuts):
            left = limits.left if core_start > cuts[0] else min(limits.left, SHORTEST)
            right = limits.right if core_stop < stop else min(limits.right, SHORTEST)
            start = max(0, min(core_start - left, core_stop - SHORTEST)) // grid * grid
            end = max(min(samples, core_stop + right), start + SHORTEST)
            windows.append(Window(start=start, core_start=core_start, core_stop=core_stop, stop=end))
    return windows


def _cuts(start: int, stop: int, limits: WindowLimits, quietest: Callable[[int, int], int], grid: int) -> list[int]:
    """Where cores begin and end."""
    cuts = [start]
    while stop - cuts[-1] > limits.core:
        latest = cuts[-1] + limits.core
        quiet = quietest(latest - min(limits.right, limits.core // 2), latest)
        cuts.append(quiet // grid * grid)
    return [*cuts, stop]


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
