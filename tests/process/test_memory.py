"""Memory of the real server over many requests: what one took is given back before the many add up."""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seat import demo
from tests.bench.slope import regress
from tests.process.conftest import Start
from tests.process.seats import MODEL_PATIENCE_S, Seat, said, tell

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


@pytest.mark.model
@pytest.mark.timeout(300)
def test_a_seat_serves_under_the_cap_that_another_recommends(tmp_path: Path) -> None:
    """Also the longest window that is one batch, again and again: what grows after the warm-up is allowed for."""
    serve = ["-m", "seat", "serve"]
    with Seat(tmp_path, serve, {"SEAT_MEM_CAP_MIB": "300"}) as refused:
        assert refused.exit_code(within_s=MODEL_PATIENCE_S) == 1
        (line,) = refused.log_lines(event="cannot_start")
    recommended = re.search(r"(\d+) would do", line["reason"])
    assert recommended
    file = max((clip.path for clip in demo.clips()), key=lambda path: path.stat().st_size).read_bytes()
    with Seat(tmp_path, serve, {"SEAT_MEM_CAP_MIB": recommended[1]}) as seat:
        seat.wait_for("/health/ready", within_s=MODEL_PATIENCE_S)
        with ThreadPoolExecutor(4) as callers:
            answers = list(callers.map(seat.post, [file] * 12))
        memory = seat.get("/health").json()["memory"]
    assert [answer.status_code for answer in answers] == [200] * 12
    assert memory["rest"] <= memory["peak"] <= memory["cap"]
