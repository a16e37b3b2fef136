"""GET /health, /health/live and /health/ready: what supervisors and people ask. Knows states; starts nothing."""

from __future__ import annotations

from typing import Any

from litestar import Response, route
from litestar.di import NamedDependency

from seat import __version__
from seat.service import Service, State
from seat.settings import Settings
from seat.web.recent import Recent

RETRY_AFTER_S = "5"
"""Seconds after which asking again makes sense while a model loads."""


@route("/health/live", http_method=["GET", "HEAD"])
async def live(service: NamedDependency[Service]) -> Response[dict[str, Any]]:
    """200 while this process can still become or stay useful; 503 where only a new one can."""
    return Response({"live": service.live}, status_code=200 if service.live else 503)


@route("/health/ready", http_method=["GET", "HEAD"])
async def ready(service: NamedDependency[Service]) -> Response[dict[str, Any]]:
    """200 once the model has warmed up, its weights released or not; 503 before, while stalled, and while stopping."""
    state = service.state
    if state in {State.READY, State.RELEASED}:
        return Response({"ready": True, "state": state})
    return Response({"ready": False, "state": state}, status_code=503, headers={"retry-after": RETRY_AFTER_S})


@route("/health", http_method=["GET", "HEAD"])
async def health(
    service: NamedDependency[Service], settings: NamedDependency[Settings], recent: NamedDependency[Recent]
) -> dict[str, Any]:
    """Everything that is known about this seat, as read from what runs."""
    now = service.statistics()
    return {
        "state": now.state,
        "version": __version__,
        "work": now.work,
        "thread": now.thread,
        "answered": recent.count,
        "key_required": bool(settings.api_keys),
        "model": now.info,
        "memory": now.memory,
        "weights": now.weights,
        "graphs": now.graphs,
        "streams": now.streams,
    }
