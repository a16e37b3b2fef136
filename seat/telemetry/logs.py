"""Write the log: one form for everybody's lines. Knows structlog and the standard library's logging; no facts.

No line holds a transcript, a file name or a key.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Final, Literal

import structlog

QUIET_S: Final = 600.0
"""Seconds in which the exporters may say the same once: a collector that is away must not bury the seat's own lines."""

log: structlog.stdlib.BoundLogger = structlog.get_logger("seat")

_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
"""Local variables hold what a log must not: samples, words, the client's key."""


class Sparing(logging.Filter):
    """Lets each logger of OpenTelemetry speak once in a while, and everybody else at will."""

    def __init__(self, quiet_s: float = QUIET_S) -> None:
        super().__init__()
        self._quiet_s = quiet_s
        self._spoke_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record may be written."""
        if not record.name.startswith("opentelemetry"):
            return True
        now = time.monotonic()
        if now - self._spoke_at.get(record.name, -self._quiet_s) < self._quiet_s:
            return False
        self._spoke_at[record.name] = now
        record.exc_info = None  # a screen of urllib3's frames says no more than the message does
        return True


def configure_logging(form: Literal["auto", "json", "console"]) -> None:
    """Send every logger of the process, other people's included, to standard error in one form."""
    readable = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.RichTracebackFormatter(show_locals=False))]
        if readable
        else [structlog.processors.ExceptionRenderer(_TRACEBACKS), structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Sparing())
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
    for name in ("httpx", "httpcore", "urllib3", "opentelemetry"):
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
