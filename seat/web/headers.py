"""Tell browsers what not to do with an answer. Knows ASGI and headers; nothing of what is served."""

from __future__ import annotations

from typing import Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
"""For every answer: types are what they say, no address is told to others, no page of ours is put into another."""

FOR_DATA: Final = ((b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),)
"""For what is no page. A page brings a policy that fits it."""

PRIVATE: Final = ((b"cache-control", b"no-store"),)
"""For what says nothing of its own: transcripts are nobody else's."""


def with_security_headers(app: ASGIApp) -> ASGIApp:
    """Wrap an application, and add the headers that an answer does not have already."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                present = dict(headers)
                page = present.get(b"content-type", b"").startswith(b"text/html")
                wanted = (*ALWAYS, *PRIVATE, *(() if page else FOR_DATA))
                message["headers"] = [*headers, *(row for row in wanted if row[0] not in present)]
            await send(message)

        await app(scope, receive, send_with_headers if scope["type"] == ScopeType.HTTP else send)

    return wrapped
