"""Tell growth from noise in a series of memory readings. Knows statistics; no processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

import numpy as np
from scipy import stats

Verdict = Literal["flat", "growing", "too short to tell"]

TOLERATED_MIB_PER_MIN: Final = 1.0
"""Growth that a run of minutes cannot tell from none; a seat that leaks by request grows by far more under load."""

CONFIDENCE: Final = 0.95
"""Share of intervals that hold the true slope."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slope:
    """A regression line's slope, in MiB per minute."""

    value: float
    """The best estimate."""
    low: float
    """The interval's lower end."""
    high: float
    """The interval's upper end."""

    @property
    def verdict(self) -> Verdict:
        """Growing where the whole interval lies above zero and the estimate matters; flat where it is tight."""
        if self.low > 0 and self.value > TOLERATED_MIB_PER_MIN:
            return "growing"
        return "flat" if self.high < TOLERATED_MIB_PER_MIN else "too short to tell"


def floors(readings: Sequence[tuple[float, float]], *, every: float) -> list[tuple[float, float]]:
    """The lowest reading of every stretch of so many minutes: what a batch takes for a moment comes and goes.

    Args:
        readings: Minutes and MiB, in order of time.
        every: Minutes of a stretch.
    """
    stretches = groupby(readings, key=lambda reading: int((reading[0] - readings[0][0]) / every))
    return [min(stretch, key=lambda reading: reading[1]) for _, stretch in stretches]


def regress(minutes: Sequence[float], mib: Sequence[float]) -> Slope:
    """Fit a line through readings, with a confidence interval that allows for readings resembling their neighbours.

    Args:
        minutes: When each reading was taken.
        mib: What was read; at least three readings.

    Returns:
        The slope. Its standard error is widened by the residuals' correlation from one reading to the next (as for a
        first-order autoregression, by the square root of (1 + r) / (1 - r)); a plain one is far too sure of itself.
    """
    times, readings = np.asarray(minutes, float), np.asarray(mib, float)
    if np.ptp(readings) == 0:
        return Slope(value=0.0, low=0.0, high=0.0)
    line = stats.linregress(times, readings)
    residuals = readings - (line.intercept + line.slope * times)
    power = float(np.dot(residuals, residuals))
    alike = float(np.dot(residuals[1:], residuals[:-1])) / power
    alike = min(max(alike, 0.0), 0.95)
    error = float(line.stderr) * np.sqrt((1 + alike) / (1 - alike))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(times) - 2)) * error
    return Slope(value=float(line.slope), low=float(line.slope - reach), high=float(line.slope + reach))
