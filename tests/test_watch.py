"""Looking at the seat twice a second."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from seat.watch import watch


async def test_each_stall_is_told_once_and_so_is_its_end() -> None:
    """However often somebody looks meanwhile."""
    looks = iter([False, True, True, True, False, True])
    seen = asyncio.Event()

    def stalled() -> bool:
        look = next(looks, None)
        if look is None:
            seen.set()
        return look is not False

    with capture_logs() as lines:
        watching = asyncio.create_task(watch(stalled, every_s=0))
        await seen.wait()
        watching.cancel()
    assert [line["event"] for line in lines] == ["stalled", "recovered", "stalled"]
