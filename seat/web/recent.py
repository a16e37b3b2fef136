"""Remember the last requests for the page. Knows numbers of the canonical line; no words, files or clients."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from litestar import get
from litestar.di import NamedDependency

from seat.web.keys import require_key

KEPT: Final = 50
"""Requests that are remembered: what a person reads on one page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """One request that has ended; each field but the first is that of the canonical line, None where it has none."""

    at: float
    """When it ended, in seconds since 1970."""
    status: int
    """Of the answer; 499 where the client hung up."""
    total_s: float
    """Seconds from the first byte of the request to the last of the answer."""
    error: str | None = None
    """The code of an error."""
    audio_s: float | None = None
    """Seconds of audio in the file."""
    queue_s: float | None = None
    """Seconds until the first of its windows ran."""
    inference_s: float | None = None
    """Seconds from then until the last had run."""
    peak_mib: int | None = None
    """MiB that the process took at most meanwhile."""


_OF_THE_LINE: Final = frozenset(field.name for field in fields(Answered)) - {"at"}


class Recent:
    """The last requests, in a ring; oldest first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._ring: deque[Answered] = deque(maxlen=kept)
        self.count = 0
        """Requests that have ended so far, forgotten ones included."""

    def __iter__(self) -> Iterator[Answered]:
        return iter(self._ring)

    def add(self, line: Mapping[str, Any]) -> None:
        """Remember a request by its canonical line, of which only numbers and the error's code are kept."""
        told = {name: value for name, value in line.items() if name in _OF_THE_LINE}
        self._ring.append(Answered(at=round(time.time(), 3), **told))
        self.count += 1


@get("/health/requests", guards=[require_key])
async def list_recent(recent: NamedDependency[Recent]) -> dict[str, Any]:
    """The last requests, oldest first, and what time it is here: a browser's clock may be another."""
    return {"now": round(time.time(), 3), "requests": list(recent)}
