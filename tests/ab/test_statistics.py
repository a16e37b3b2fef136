"""Differences that are there are shown, and those that are not are not."""

import numpy as np
import pytest

from seat.ab.statistics import FEWEST_PAIRS, Pairs, compare, cost


def pairs(count: int, *, ratio: float, seed: int, base_s: float = 0.1, noise: float = 0.1) -> Pairs:
    """Times that wander together, A's being so much of B's."""
    random = np.random.default_rng(seed)
    drift = base_s * np.exp(random.normal(0, 0.3, count))
    return [
        (float(s * ratio * np.exp(random.normal(0, noise))), float(s * np.exp(random.normal(0, noise)))) for s in drift
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_side_that_is_faster_is_named(seed: int) -> None:
    """A fifth less time, under three times that much noise that both share: pairs cancel it."""
    found = compare([pairs(40, ratio=0.8, seed=seed), pairs(40, ratio=0.8, seed=seed + 100, base_s=1)])
    assert found.verdict == "A is faster"
    assert found.ratio is not None
    assert found.ratio.holds(0.8)
    swapped = [[(b, a) for a, b in clip] for clip in (pairs(40, ratio=0.8, seed=seed),)]
    assert compare(swapped).verdict == "B is faster"


def test_equals_are_seldom_told_apart() -> None:
    """Of a hundred runs between two that do not differ, about five may say that they do; here at most twelve."""
    wrong = [compare([pairs(20, ratio=1, seed=seed)]).verdict != "no difference shown" for seed in range(100)]
    assert sum(wrong) <= 12


def test_too_few_pairs_say_nothing() -> None:
    """However far apart they lie."""
    found = compare([pairs(FEWEST_PAIRS - 1, ratio=0.1, seed=0)])
    assert (found.ratio, found.verdict) == (None, "too few to tell")


def test_medians_and_tails_are_those_of_the_times() -> None:
    """In seconds, over all clips together."""
    found = compare([[(float(n), 2.0) for n in range(1, 11)], [(float(n), 2.0) for n in range(11, 21)]])
    assert (found.clips, found.pairs) == (2, 20)
    assert (found.a_median, found.b_median, found.b_p95) == (10.5, 2.0, 2.0)
    assert found.a_p95 == pytest.approx(19.05)


def test_the_same_times_give_the_same_report() -> None:
    """What is resampled is drawn from one seed."""
    clips = [pairs(12, ratio=0.9, seed=1)]
    assert compare(clips) == compare(clips)


def test_a_line_tells_what_every_request_costs() -> None:
    """Twenty milliseconds, and three for each second of audio, under noise."""
    random = np.random.default_rng(0)
    times = {
        s: [(0.02 + 0.003 * s) * np.exp(random.normal(0, 0.05)) for _ in range(30)] for s in (1.0, 5.0, 20.0, 50.0)
    }
    found = cost(times)
    assert found is not None
    assert found.fixed_s.holds(0.02)
    assert found.per_audio_s.holds(0.003)


def test_one_length_makes_no_line() -> None:
    """Nor does none."""
    assert (cost({5.0: [0.1, 0.2]}), cost({})) == (None, None)
