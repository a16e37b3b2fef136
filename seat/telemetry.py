"""Say what happens, for people and programs. Knows structlog and the names of facts; no HTTP, no model.

One canonical line per request: the event is always 'request', everything else is a key. No transcript, no file name.
"""

from __future__ import annotations

import contextvars
import logging
import sys
from typing import Any, Literal

import structlog

from seat.transcript import Timings

log: structlog.stdlib.BoundLogger = structlog.get_logger("seat")

_facts: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("request_facts", default=None)


def configure_logging(form: Literal["auto", "json", "console"]) -> None:
    """Send every logger of the process, other people's included, to standard error in one form."""
    readable = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if readable
        else [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


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


def note_timings(timings: Timings) -> None:
    """Add where a request spent its time; seconds in milliseconds' precision."""
    note(
        audio_s=round(timings.audio_s, 3),
        windows=timings.windows,
        batch_sizes=timings.batch_sizes[:64],
        decode_s=round(timings.decode_s, 4),
        queue_s=round(timings.queue_s, 4),
        inference_s=round(timings.inference_s, 4),
    )
