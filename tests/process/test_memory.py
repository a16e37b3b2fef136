"""Memory of the real server over many requests: what one took is given back before the many add up."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.bench.slope import regress
from tests.process.conftest import Start
from tests.process.seats import said, tell

pytestmark = pytest.mark.process

MOST_MIB = 2.0
"""Growth over a hundred requests that is noise: they hold some 40 MiB of samples."""


@pytest.mark.timeout(300)
def test_five_hundred_requests_leave_nothing(start: Start) -> None:
    """Once the allocator is warm, the line through what is resident is flat, its confidence interval included."""
    seat, dice = start().wait_for("/health/ready"), random.Random(42)
    files = [said(*dice.choices(range(7), k=dice.randint(1, 24))) for _ in range(25)]
    readings = []
    with ThreadPoolExecutor(4) as callers:
        for hundreds in range(5):
            for quarter in range(4):
                assert {200} == {answer.status_code for answer in callers.map(seat.post, files)}
                readings.append((hundreds + (quarter + 1) / 4, seat.resident_mib()))
    slope = regress(*zip(*readings[8:], strict=True))
    tell(f"{slope.value:+.2f} MiB for 100 requests, 95 % interval {slope.low:+.2f} to {slope.high:+.2f}")
    assert slope.high < MOST_MIB
