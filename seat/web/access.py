"""Give every answer a request id and every request its canonical line. Knows ASGI; nothing of what is served."""

from __future__ import annotations

import re
import uuid
from http import HTTPStatus

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from seat.telemetry import exchange
from seat.web.problems import CLIENT_CLOSED_REQUEST
from seat.web.recent import Recent

_SAFE_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
"""Request ids that may be echoed in a header and a log line."""

UPGRADE_METHOD = "GET"
"""How a live session begins; ASGI does not tell it."""

QUIET_PREFIXES = ("/health", "/metrics")
"""Paths that are asked every few seconds; a line, a span and a measurement for each would bury the others."""

AUDIO_PREFIXES = ("/v1/audio/", "/v1/realtime")
"""Paths whose requests are remembered for the page, live sessions among them."""


def with_access_line(app: ASGIApp, recent: Recent) -> ASGIApp:
    """Wrap an application, outside of its routing, so that unmatched paths have their line too."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in (ScopeType.HTTP, ScopeType.WEBSOCKET):
            await app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request_id = _request_id(headers.get("x-request-id", ""))
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == CLIENT_CLOSED_REQUEST:  # whoever still reads has closed one direction, or sent half
                    message["status"] = HTTPStatus.BAD_REQUEST
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            elif message["type"] == "websocket.accept":
                status = HTTPStatus.SWITCHING_PROTOCOLS
            elif message["type"] == "websocket.close" and not status:
                status = HTTPStatus.FORBIDDEN
            await send(message)

        if scope["path"].startswith(QUIET_PREFIXES):
            await app(scope, receive, send_with_id)
            return
        with exchange(
            request_id=request_id,
            method=scope["method"][:20] if scope["type"] == ScopeType.HTTP else UPGRADE_METHOD,
            path=_known_path(scope["path"]),
            scheme=scope["scheme"],
            headers=headers,
        ) as answered:
            try:
                await app(scope, receive, send_with_id)
            finally:
                answered.status, answered.route = int(status), scope.get("path_template")
        if scope["path"].startswith(AUDIO_PREFIXES):
            recent.add(answered.told)

    return wrapped


def _request_id(shown: str) -> str:
    return shown if _SAFE_ID.fullmatch(shown) else f"req_{uuid.uuid4().hex}"


def _known_path(path: str) -> str:
    """The first parts of a path: an unknown one may hold anything, of any length, and what steers a terminal too."""
    return "".join(character if character.isprintable() else "?" for character in path[:100])
