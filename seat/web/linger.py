"""Read on where an answer came before the request's end. Knows ASGI; nothing of what is served.

A connection that is closed with unread bytes in it is reset, and a reset overtakes the answer: without this, 64 of 96
uploads over the limit reached the asynchronous openai SDK as a connection error, and it then sends them twice more.
"""

from __future__ import annotations

import asyncio
import contextlib

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, ReceiveMessage, Scope, Send

LINGER_S = 30.0
"""Seconds to read on at most; as nginx's ``lingering_time``."""

PAUSE_S = 5.0
"""Seconds to wait for the next bytes; as nginx's ``lingering_timeout``."""

_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
"""One of them announces a body."""


def with_lingering(app: ASGIApp) -> ASGIApp:
    """Wrap an application: what it leaves unread of a request is thrown away after the answer."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        unread = scope["type"] == ScopeType.HTTP and any(name in _BODY_HEADERS for name, _ in scope["headers"])

        async def receive_and_see() -> ReceiveMessage:
            nonlocal unread
            message = await receive()
            unread = message["type"] == "http.request" and message["more_body"]
            return message

        await app(scope, receive_and_see, send)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while unread:
                    async with asyncio.timeout(PAUSE_S):
                        await receive_and_see()

    return wrapped
