"""GET /metrics: everything that is counted, for Prometheus. Knows its text format; counts nothing.

Open like the probes, as a scraper has no key: it tells how much is asked and what runs, never what was said or by whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from litestar import Response, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
"""Prometheus' text format."""


@get("/metrics")
async def metrics(exposition: NamedDependency[Callable[[], bytes]]) -> Response[bytes]:
    """All metrics as they are now; read on a thread, as a card's driver may be slow to answer."""
    return Response(await asyncio.to_thread(exposition), headers={"content-type": CONTENT_TYPE})
