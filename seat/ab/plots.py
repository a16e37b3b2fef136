"""Draw a comparison: every pair's times over the length of its clip, and the ratios by bin. Knows matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from seat.ab.clips import Clip
from seat.ab.comparison import Comparison, Series

mpl.use("Agg")

import matplotlib.pyplot as plt


def draw(path: Path, told: Comparison, series: Series, clips: Sequence[Clip]) -> None:
    """Write a PNG; where no pair was answered, its axes are empty."""
    figure, (times, ratios) = plt.subplots(1, 2, figsize=(11, 4))
    times.set(xlabel="seconds of audio", ylabel="milliseconds")
    if any(series.pairs.values()):  # an axis without points has no logarithm
        for place, (side, name) in enumerate((("A", told.a), ("B", told.b))):
            points = [(clips[n].seconds, pair[place] * 1e3) for n, pairs in series.pairs.items() for pair in pairs]
            times.scatter(*zip(*points, strict=True), s=9, alpha=0.5, label=f"{side}: {name[:40]}")
        times.set(xscale="log", yscale="log")
        times.legend()
    shown = {name: found.ratio for name, found in told.latency.items() if found.ratio}
    values = [ratio.value for ratio in shown.values()]
    below = [ratio.value - ratio.low for ratio in shown.values()]
    above = [ratio.high - ratio.value for ratio in shown.values()]
    ratios.errorbar(range(len(shown)), values, yerr=[below, above], fmt="o", capsize=4)
    ratios.axhline(1, color="grey", linewidth=1)
    ratios.set_xticks(range(len(shown)), list(shown))
    ratios.set(ylabel="A's time by B's, median of pairs")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
