"""Gather the facts of one request for its canonical line. Knows names and numbers; writes nothing.

The event is always 'request', everything else is a key. Metrics and the server span are made from the same facts.
"""

from __future__ import annotations

import contextvars
from typing import Any, Final

from seat.meter import MIB
from seat.transcript import Timings

MOST_BATCH_SIZES: Final = 64
"""How many of a request's batches its line lists."""

_facts: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("request_facts", default=None)


def open_request(**facts: object) -> dict[str, Any]:
    """Begin a request's line; what `note` adds in this task and its children lands in the dictionary returned."""
    line: dict[str, Any] = dict(facts)
    _facts.set(line)
    return line


def note(**facts: object) -> None:
    """Add facts to the line of the request that this task works for; nothing happens outside a request."""
    line = _facts.get()
    if line is not None:
        line.update(facts)


def noted(name: str) -> object | None:
    """What the line of the request that this task works for says under a name so far; None where it says nothing."""
    return (_facts.get() or {}).get(name)


def note_timings(timings: Timings) -> None:
    """Add what a request took of the model; seconds in milliseconds' precision. Its stages note themselves."""
    note(
        audio_s=round(timings.audio_s, 3),
        windows=timings.windows,
        batch_sizes=timings.batch_sizes[:MOST_BATCH_SIZES],
        queue_s=round(timings.queue_s, 4),
        inference_s=round(timings.inference_s, 4),
        peak_mib=timings.peak_nbytes // MIB,
        rest_mib=timings.rest_nbytes // MIB,
    )
