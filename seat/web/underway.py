"""Cut off what is still being answered when the seat can wait no longer. Knows ASGI and tasks; no work."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any, Final

from litestar import Request
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from seat.errors import ShuttingDown
from seat.telemetry import note
from seat.web.problems import to_response
from seat.web.sockets import CloseCode

TRIES: Final = 3
"""How often a request is told to end: the first time it may answer and read on, then it may not."""

EACH_S: Final = 1.0
"""Seconds between two of them."""


class UnderWay:
    """The requests and live sessions that are being answered."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = False

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tasks)

    def watching(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application, outside of everything else."""

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] not in (ScopeType.HTTP, ScopeType.WEBSOCKET):
                send = partial(self._send_of_life, send)
            elif task := asyncio.current_task():
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            with contextlib.suppress(asyncio.CancelledError):  # Granian would take it for a fault
                await app(scope, receive, send)

        return wrapped

    async def _send_of_life(self, send: Send, message: Any) -> None:  # noqa: ANN401  Litestar has no type for these
        """Pass on what becomes of the application's own life, but no traceback of its end where that was cut off."""
        if not (self._over and message["type"] == "lifespan.shutdown.failed"):
            await send(message)

    async def finished(self) -> None:
        """Wait for those that are being answered now; who comes meanwhile is refused at once, and not waited for."""
        if tasks := tuple(self._tasks):
            await asyncio.wait(tasks)

    async def cut_off(self, each_s: float = EACH_S) -> None:
        """End all of them, with so many seconds between two tries."""
        self._over = True
        for _ in range(TRIES):
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(tuple(self._tasks), timeout=each_s)


def with_last_words(app: ASGIApp) -> ASGIApp:
    """Wrap an application: who is cut off before an answer has begun is told that the seat stops."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_and_see(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await app(scope, receive, send_and_see)
        except asyncio.CancelledError:
            note(error=ShuttingDown.code)
            if scope["type"] == ScopeType.HTTP and not begun:
                request: Request[Any, Any, Any] = Request(scope, receive, send)
                answer = to_response(request, ShuttingDown()).to_asgi_response(None, request)
                await answer(scope, receive, send)
            elif scope["type"] == ScopeType.WEBSOCKET:
                await send({"type": "websocket.close", "code": CloseCode.GOING_AWAY, "reason": ShuttingDown.code})

    return wrapped
