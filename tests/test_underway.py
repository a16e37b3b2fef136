"""What is cut off when the seat can wait no longer."""

import asyncio
from typing import Any

from seat.web.underway import UnderWay


async def test_who_does_not_end_is_told_again() -> None:
    """The first time it may answer and read on; it is no fault of the application."""
    under_way = UnderWay()
    told = 0

    async def stubborn(_scope: Any, _receive: Any, _send: Any) -> None:
        nonlocal told
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told += 1
        await asyncio.Event().wait()

    request = asyncio.create_task(under_way.watching(stubborn)({"type": "http"}, None, None))
    await asyncio.sleep(0)
    assert len(under_way) == 1
    await under_way.cut_off(0.01)
    assert (told, len(under_way), request.done(), request.cancelled()) == (1, 0, True, False)


async def test_what_is_no_request_is_not_cut_off() -> None:
    """The application's own life has an end of its own."""
    under_way = UnderWay()
    ended = asyncio.Event()

    async def lives(_scope: Any, _receive: Any, _send: Any) -> None:
        await ended.wait()

    life = asyncio.create_task(under_way.watching(lives)({"type": "lifespan"}, None, None))
    await asyncio.sleep(0)
    await under_way.cut_off()
    assert (len(under_way), life.done()) == (0, False)
    ended.set()
    await life
