"""Give every answer a request id and every request its canonical line. Knows ASGI; nothing of what is served."""

from __future__ import annotations

import re
import uuid
from http import HTTPStatus

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from seat.telemetry import exchange, log
from seat.web.problems import CLIENT_CLOSED_REQUEST
from seat.web.recent import Recent

_SAFE_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
"""Request ids that may be echoed in a header and a log line."""

UPGRADE_METHOD = "GET"
"""How a live session begins; ASGI does not tell it."""

QUIET = {"/health", "/health/live", "/health/ready", "/health/requests", "/metrics"}
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
        method = scope["method"] if scope["type"] == ScopeType.HTTP else UPGRADE_METHOD
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            status = status or _status_of(message)
            await send(_completed(message, request_id, method))

        if scope["path"] in QUIET:
            await app(scope, receive, send_with_id)
            if status == HTTPStatus.UNAUTHORIZED:
                log.warning("key_refused", path=_known_path(scope["path"]))
            return
        with exchange(
            request_id=request_id,
            method=method[:20],
            path=_known_path(scope["path"]),
            scheme=scope["scheme"],
            headers=headers,
        ) as answered:
            try:
                await app(scope, receive, send_with_id)
            finally:
                answered.status, answered.route = int(status), scope.get("path_template")
        asked = scope["type"] == ScopeType.WEBSOCKET or method == "POST"
        known = (answered.route or "").startswith(AUDIO_PREFIXES)
        if asked and known and status != HTTPStatus.UNAUTHORIZED:
            recent.add(answered.told)

    return wrapped


def _status_of(message: Message) -> int:
    """The status that a message tells, where none before it did; 0 where it tells none."""
    if message["type"] == "http.response.start":
        return message["status"]
    return {"websocket.accept": HTTPStatus.SWITCHING_PROTOCOLS, "websocket.close": HTTPStatus.FORBIDDEN}.get(
        message["type"], 0
    )


def _completed(message: Message, request_id: str, method: str) -> Message:
    """What goes out for a message: with the request's id, and as HTTP wants it."""
    if message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
        if message["status"] == CLIENT_CLOSED_REQUEST:  # whoever still reads has closed one direction, or sent half
            message["status"] = HTTPStatus.BAD_REQUEST
    elif message["type"] == "http.response.body" and method == "HEAD":
        message["body"] = b""  # over HTTP/2 it would break the protocol
    return message


def _request_id(shown: str) -> str:
    return shown if _SAFE_ID.fullmatch(shown) else f"req_{uuid.uuid4().hex}"


def _known_path(path: str) -> str:
    """The first parts of a path: an unknown one may hold anything, of any length, and what steers a terminal too."""
    return "".join(character if character.isprintable() else "?" for character in path[:100])
