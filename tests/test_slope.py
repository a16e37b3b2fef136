"""A leak is told from noise."""

import numpy as np
import pytest

from tests.bench.slope import floors, regress

MINUTES = np.arange(0, 10, 1 / 120)


def _noise(seed: int, alike: float) -> np.ndarray:
    """Readings that wander by some MiB, each resembling the one before it."""
    random = np.random.default_rng(seed)
    noise = np.zeros(len(MINUTES))
    for place in range(1, len(noise)):
        noise[place] = alike * noise[place - 1] + random.normal(0, 2)
    return noise


@pytest.mark.parametrize("seed", range(5))
def test_level_readings_are_flat(seed: int) -> None:
    """However they wander, as long as they come back."""
    assert regress(MINUTES, 900 + _noise(seed, 0.7)).verdict == "flat"


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_is_growing(seed: int) -> None:
    """Three MiB a minute, under the same noise."""
    slope = regress(MINUTES, 900 + 3 * MINUTES + _noise(seed, 0.7))
    assert slope.verdict == "growing"
    assert slope.low < 3 < slope.high


def test_too_few_readings_say_nothing() -> None:
    """A short run cannot tell, and says so."""
    assert regress(MINUTES[:8], 900 + _noise(1, 0.7)[:8]).verdict == "too short to tell"


def test_readings_without_any_noise_are_flat() -> None:
    """No division by their missing variance."""
    assert regress(MINUTES, np.full(len(MINUTES), 900.0)).verdict == "flat"


def test_what_a_batch_takes_for_a_moment_is_no_growth() -> None:
    """Of each stretch the lowest reading counts: a level that is returned to is flat, whatever lies above it."""
    readings = [(second / 60, 800.0 + (0 if second % 5 == 0 else 40 * (second % 7))) for second in range(120)]
    resting = floors(readings, every=5 / 60)
    assert [mib for _, mib in resting] == [800.0] * 24
    assert regress(*zip(*resting, strict=True)).verdict == "flat"
