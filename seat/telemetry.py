"""Say what happens, for people and programs. Knows structlog, OpenTelemetry and names of facts; no HTTP, no model.

One canonical line per request: the event is always 'request', everything else is a key. No transcript, no file name.
"""

from __future__ import annotations

import contextvars
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, StatusCode

from seat.memory import Footprint
from seat.meter import MIB
from seat.transcript import Timings

BATCH_SPAN: Final = "asr batch"
"""One batch of windows on the GPU thread, run once; a batch that is cut for want of memory has a span for each try."""
AUDIO_DURATION: Final = "asr.audio.duration"
"""Seconds of audio in the batch, without padding."""
BATCH_SIZE: Final = "asr.batch.size"
"""Windows in the batch."""
ATTENTION: Final = "asr.attention"
"""'full' or 'local'."""
REST_BEFORE: Final = "asr.memory.rest_before"
"""Bytes that the process took before the batch: of the card, or resident where there is none."""
PEAK: Final = "asr.memory.peak"
"""Bytes that the process took at most during the batch."""
REST_AFTER: Final = "asr.memory.rest_after"
"""Bytes that the process took after it, once unused memory was given back."""
RESERVED: Final = "asr.memory.reserved"
"""Bytes that torch's allocator had taken from the driver at most; absent on a CPU."""
ALLOCATED: Final = "asr.memory.allocated"
"""Bytes of them that tensors took at most; absent on a CPU."""
ERROR_TYPE: Final = "error.type"
"""OpenTelemetry's own name: one of our codes, or the class of an error."""

Origin = SpanContext
"""Where a request is traced; for whoever works for it on other tasks and threads."""

_tracer = trace.get_tracer("seat")

log: structlog.stdlib.BoundLogger = structlog.get_logger("seat")

_facts: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("request_facts", default=None)


_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
"""Local variables hold what a log must not: samples, words, the client's key."""


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
        peak_mib=timings.peak_nbytes // MIB,
        rest_mib=timings.rest_nbytes // MIB,
    )


def here() -> Origin:
    """The span that this task works in; not a valid one where nobody traces."""
    return trace.get_current_span().get_span_context()


@contextmanager
def batch_span(requests: Iterable[Origin], *, audio_s: float, windows: int, attention: str) -> Iterator[Span]:
    """Trace one batch, below the first of the requests it serves and linked to the others."""
    origins = list({origin.span_id: origin for origin in requests if origin.is_valid}.values())
    span = _tracer.start_span(
        BATCH_SPAN,
        context=trace.set_span_in_context(NonRecordingSpan(origins[0]), Context()) if origins else Context(),
        links=[Link(other) for other in origins[1:]],
        attributes={AUDIO_DURATION: audio_s, BATCH_SIZE: windows, ATTENTION: attention},
    )
    try:
        yield span
    except Exception as fault:
        span.set_attribute(ERROR_TYPE, getattr(fault, "code", None) or type(fault).__name__)
        span.set_status(StatusCode.ERROR)
        raise
    finally:
        span.end()


def tell_footprint(span: Span, footprint: Footprint) -> None:
    """Add what a batch took."""
    span.set_attributes(
        {REST_BEFORE: footprint.rest_before, PEAK: footprint.peak, REST_AFTER: footprint.rest_after}
        | ({RESERVED: held.reserved, ALLOCATED: held.allocated} if (held := footprint.allocator) else {})
    )
