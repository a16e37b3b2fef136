"""Let in who shows a key. Knows the Authorization header; no users."""

from __future__ import annotations

import hmac
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from seat.errors import InvalidApiKey
from seat.settings import Settings


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    """Guard a route with the settings' keys; every key is compared, each in constant time.

    Raises:
        InvalidApiKey: The settings name keys and the client shows none of them.
    """
    settings: Settings = connection.app.state.settings
    if not settings.api_keys:
        return
    scheme, _, shown = connection.headers.get("authorization", "").partition(" ")
    given = scheme.lower() == "bearer" and bool(shown.strip())
    matches = [
        hmac.compare_digest(shown.strip().encode(), key.get_secret_value().encode()) for key in settings.api_keys
    ]
    if not (given and any(matches)):
        raise InvalidApiKey(given=given)
