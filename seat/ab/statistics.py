"""Compare two series of times, pair by pair. Knows medians, ratios, intervals and lines; no server, no audio.

Pairs are resampled within their clips, and clips among themselves where there are several: requests for one clip
resemble each other, and a plain bootstrap over all of them would be far too sure of itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES: Final = 4000
"""Samples of a bootstrap: an interval's ends then move by about a hundredth of its width from seed to seed."""

CONFIDENCE: Final = 0.95
"""Share of intervals that hold the true value."""

SEED: Final = 20_260_101
"""The same times give the same report."""

FEWEST_PAIRS: Final = 6
"""Pairs below which no interval is worth its name."""

Pairs = Sequence[tuple[float, float]]
"""Seconds of A and of B for one clip, round by round."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A figure with its interval."""

    value: float
    """The best estimate."""
    low: float
    """The interval's lower end."""
    high: float
    """Its upper end."""

    def holds(self, value: float) -> bool:
        """Whether a value lies in the interval."""
        return self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """How two sides fared with the clips of a bin; times in seconds."""

    clips: int
    """Clips in it."""
    pairs: int
    """Requests to each side."""
    a_median: float
    """A's median."""
    b_median: float
    """B's median."""
    a_p95: float
    """Time that 95 % of A's requests stay under."""
    b_p95: float
    """The same for B."""
    ratio: Estimate | None
    """Median of A's time by B's, pair by pair: under 1 where A is faster; None with too few pairs."""

    @property
    def verdict(self) -> str:
        """What this says, in words."""
        if self.ratio is None:
            return "too few to tell"
        if self.ratio.holds(1.0):
            return "no difference shown"
        return "A is faster" if self.ratio.value < 1 else "B is faster"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """A request's time as a line over the length of its audio."""

    fixed_s: Estimate
    """Seconds that every request takes."""
    per_audio_s: Estimate
    """Seconds for each second of audio."""


def compare(clips: Sequence[Pairs]) -> Compared:
    """Compare the sides on some clips.

    Args:
        clips: Pairs of seconds for each clip; at least one clip with one pair.
    """
    times = np.concatenate([np.asarray(pairs, float) for pairs in clips])
    a, b = times.T
    return Compared(
        clips=len(clips),
        pairs=len(times),
        a_median=float(np.median(a)),
        b_median=float(np.median(b)),
        a_p95=float(np.quantile(a, 0.95)),
        b_p95=float(np.quantile(b, 0.95)),
        ratio=_ratio(clips) if len(times) >= FEWEST_PAIRS else None,
    )


def _ratio(clips: Sequence[Pairs]) -> Estimate:
    ratios = [np.array([a / b for a, b in pairs]) for pairs in clips]
    drawn = np.random.default_rng(SEED)
    medians = [np.median(np.concatenate(_resampled(ratios, drawn))) for _ in range(RESAMPLES)]
    return estimate(float(np.median(np.concatenate(ratios))), medians)


def _resampled(ratios: Sequence[NDArray[np.float64]], drawn: np.random.Generator) -> list[NDArray[np.float64]]:
    chosen = drawn.integers(len(ratios), size=len(ratios)) if len(ratios) > 1 else [0]
    return [drawn.choice(ratios[place], size=len(ratios[place])) for place in chosen]


def estimate(value: float, resamples: ArrayLike) -> Estimate:
    """A figure, with the interval that holds most of its resamples."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.asarray(resamples, float), [tail, 1 - tail])
    return Estimate(value=value, low=float(low), high=float(high))


def cost(times: Mapping[float, Sequence[float]]) -> Cost | None:
    """Fit a line through the median times of clips of different lengths.

    Args:
        times: Seconds that a clip's requests took, by its own seconds.

    Returns:
        The line, its residuals weighted by length so that the long clips' noise does not drown what the short ones
        tell; None with fewer than two lengths.
    """
    if len(times) < 2:  # noqa: PLR2004  a line has two points
        return None
    lengths = np.array(list(times))
    drawn = np.random.default_rng(SEED)
    whole = _line(lengths, np.array([np.median(took) for took in times.values()]))
    lines = np.array(
        [
            _line(lengths, np.array([np.median(drawn.choice(np.asarray(took), len(took))) for took in times.values()]))
            for _ in range(RESAMPLES)
        ]
    )
    return Cost(fixed_s=estimate(whole[0], lines[:, 0]), per_audio_s=estimate(whole[1], lines[:, 1]))


def _line(lengths: NDArray[np.float64], took: NDArray[np.float64]) -> tuple[float, float]:
    """Intercept and slope."""
    slope, intercept = np.polyfit(lengths, took, 1, w=1 / np.sqrt(lengths))
    return float(intercept), float(slope)
