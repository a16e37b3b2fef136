"""Stop work that nobody waits for. Knows ASGI's disconnect message; nothing of the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from seat.errors import ClientDisconnected

Result = TypeVar("Result")


async def unless_disconnected(
    receive: Callable[[], Awaitable[Mapping[str, Any]]], work: Coroutine[Any, Any, Result]
) -> Result:
    """Await work, and cancel it as soon as the client is gone. Call once the request's body is read.

    Neither Granian nor Litestar cancels a plain handler, though the message of the disconnect arrives at once.

    Raises:
        ClientDisconnected: The client hung up before the work was done.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        return task.result()
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.wait((task, watcher))


async def _disconnected(receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
