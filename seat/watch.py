"""Look at the seat twice a second: does the event loop keep up, does the model hang? Knows clocks and one question."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from seat.telemetry import log, names, record

EVERY_S: Final = 0.5
"""Seconds between two looks: each costs microseconds, and a loop that stands still for less is felt by nobody."""


async def watch(stalled: Callable[[], bool], every_s: float = EVERY_S) -> None:
    """Record how late the loop wakes up, and count and log each stall once; until cancelled.

    Args:
        stalled: Whether the model's running call takes too long by now.
        every_s: Seconds between two looks.
    """
    hangs = False
    while True:
        due_at = time.monotonic() + every_s
        await asyncio.sleep(every_s)
        record(names.LOOP_LAG, max(0.0, time.monotonic() - due_at))
        if stalled() is not hangs:
            hangs = not hangs
            if hangs:
                record(names.STALLS, 1)
                log.error("stalled")
            else:
                log.warning("recovered")
