"""GET /: the page for people. Knows the file, its digest and what a browser may do with it; not what it shows."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from typing import Any, Final

from litestar import MediaType, Request, Response, route

PAGE: Final = (resources.files("seat.web") / "index.html").read_text(encoding="utf-8")

ETAG: Final = f'"{hashlib.sha256(PAGE.encode()).hexdigest()[:32]}"'
"""Changes with the file: a browser asks every time, and is sent only what it does not have."""


def policy(page: str) -> str:
    """The Content-Security-Policy of a page: its own scripts and styles by their digests, nothing else that runs.

    An AudioWorklet is loaded from an address and from nothing else; that one is a ``blob:``, which only a script that
    runs already can make. ``blob:`` is also where the sound lies that is played, ``data:`` the page's icon.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_digests(page, 'script')} blob:",
            f"style-src {_digests(page, 'style')}",
            "connect-src 'self'",
            "img-src data:",
            "media-src blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _digests(page: str, tag: str) -> str:
    """What the elements of a name hold, as a policy names it."""
    contents = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digests = (hashlib.sha256(content.encode()).digest() for content in contents)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": policy(PAGE),
    "etag": ETAG,
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
}


@route("/", http_method=["GET", "HEAD"], media_type=MediaType.HTML)
async def show_page(request: Request[Any, Any, Any]) -> Response[str | None]:
    """Send the page, or 304 where the browser has it."""
    if ETAG in request.headers.get("if-none-match", ""):
        return Response(None, status_code=304, headers=HEADERS)
    return Response(PAGE, headers=HEADERS)
