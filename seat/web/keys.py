"""Let in who shows a key. Knows the Authorization header and the names of keys; no users."""

from __future__ import annotations

import hmac
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from seat.errors import InvalidApiKey
from seat.settings import Settings
from seat.telemetry import note


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    """Guard a route with the settings' keys; every key is compared, each in constant time. Its name goes into the line.

    Raises:
        InvalidApiKey: The settings name keys and the client shows none of them.
    """
    settings: Settings = connection.app.state.settings
    if not settings.api_keys:
        return
    scheme, _, shown = connection.headers.get("authorization", "").partition(" ")
    given = scheme.lower() == "bearer" and bool(shown.strip())
    matches = [
        name
        for name, key in settings.named_keys
        if hmac.compare_digest(shown.strip().encode(), key.get_secret_value().encode())
    ]
    if not (given and matches):
        raise InvalidApiKey(given=given)
    note(client=matches[0])
