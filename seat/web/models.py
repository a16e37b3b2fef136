"""GET /v1/models: the one model under all its names. Knows OpenAI's model object; no weights."""

from __future__ import annotations

from typing import Any

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath

from seat.errors import ModelNotFound
from seat.service import Service
from seat.settings import Settings


@get("/v1/models")
async def list_models(service: NamedDependency[Service], settings: NamedDependency[Settings]) -> dict[str, Any]:
    """List the model's own name and its aliases."""
    return {"object": "list", "data": [_model(name, service) for name in settings.served_models]}


@get("/v1/models/{name:path}")
async def retrieve_model(
    name: FromPath[str], service: NamedDependency[Service], settings: NamedDependency[Settings]
) -> dict[str, Any]:
    """Describe the model under one of its names; names may hold a slash."""
    asked = name.removeprefix("/")
    if asked not in settings.served_models:
        raise ModelNotFound(model=asked, served=settings.served_models)
    return _model(asked, service)


def _model(name: str, service: Service) -> dict[str, Any]:
    info = service.info
    return {
        "id": name,
        "object": "model",
        "created": int(service.started_at),
        "owned_by": "seat",
        "root": info.id if info else None,
        "revision": info.revision if info else None,
        "device": info.device if info else None,
        "dtype": info.dtype if info else None,
    }
