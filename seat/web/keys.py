"""Let in who shows a key. Knows the Authorization header, its stand-in for browsers and names of keys; no users."""

from __future__ import annotations

import hmac
from typing import Any, Final

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from seat.errors import InvalidApiKey
from seat.settings import Settings
from seat.telemetry import note

KEY_PROTOCOL: Final = "openai-insecure-api-key."
"""What a browser, which can set no header, puts before its key among the subprotocols it offers."""


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    """Guard a route with the settings' keys; every key is compared, each in constant time. Its name goes into the line.

    Raises:
        InvalidApiKey: The settings name keys and the client shows none of them.
    """
    check_key(connection.app.state.settings, bearer(connection))


def bearer(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The token in the Authorization header; empty where there is none."""
    scheme, _, shown = connection.headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else ""


def check_key(settings: Settings, shown: str) -> None:
    """Compare a key with those of the settings.

    Raises:
        InvalidApiKey: The settings name keys, and this is none of them.
    """
    if not settings.api_keys:
        return
    matches = [
        name
        for name, key in settings.named_keys
        if hmac.compare_digest(shown.encode(errors="replace"), key.get_secret_value().encode())
    ]
    if not matches:
        raise InvalidApiKey(given=bool(shown))
    note(client=matches[0])


def shown_key(socket: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The key a live client shows: in the header, or, as browsers must, as a subprotocol of OpenAI's name."""
    if shown := bearer(socket):
        return shown
    offered = (name.strip() for name in socket.headers.get("sec-websocket-protocol", "").split(","))
    return next((name.removeprefix(KEY_PROTOCOL) for name in offered if name.startswith(KEY_PROTOCOL)), "")
