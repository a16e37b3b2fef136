"""Trace the parts of a request: stages, waiting, batches. Knows OpenTelemetry's tracer; neither HTTP nor providers.

Without a provider every span is the API's, which does nothing.
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Link, NonRecordingSpan, Span, SpanContext, StatusCode

from seat.memory import Footprint
from seat.telemetry import names
from seat.telemetry.line import note
from seat.telemetry.metrics import readings, record_batch, record_footprint

tracer = trace.get_tracer("seat")
"""What all spans of a seat come from."""


@dataclass(slots=True)
class _Remainder:
    """Batches that have no span of their own; bytes at most, seconds and windows in all."""

    began_ns: int = 0
    ended_ns: int = 0
    batches: int = 0
    audio_s: float = 0.0
    windows: int = 0
    rest_before: int = 0
    peak: int = 0
    rest_after: int = 0


@dataclass(slots=True)
class Origin:
    """Where a request is traced; for whoever works for it on other tasks and threads."""

    context: SpanContext
    """The span that its batches hang below."""
    queue: Span = INVALID_SPAN
    """Open until its first batch begins."""
    submitted_at: float = 0.0
    """When it began to wait, on the monotonic clock, in seconds."""
    batches: int = 0
    """Batches that have served it; counted on the GPU thread alone."""
    remainder: _Remainder = field(default_factory=_Remainder)
    """Those beyond `names.SPANS_PER_REQUEST`."""
    _ended: Lock = field(default_factory=Lock)
    """Taken, once and for all, by whoever ends the span in the queue."""

    def served(self) -> None:
        """A batch begins that serves it."""
        self.batches += 1
        self.stop_waiting()

    def stop_waiting(self, fault: BaseException | None = None) -> None:
        """End its span in the queue, with a fault where that ends it; whoever comes second changes nothing.

        A batch begins on the GPU thread, and its request may give up on the event loop at the same moment.
        """
        if not self._ended.acquire(blocking=False):
            return
        if fault is not None:
            note(queue_s=round(time.monotonic() - self.submitted_at, 4))
            mark(self.queue, fault)
        self.queue.end()


_origin: contextvars.ContextVar[Origin | None] = contextvars.ContextVar("origin", default=None)


def here() -> Origin:
    """Where the work of this task is traced; at no valid span where nobody traces."""
    return _origin.get() or Origin(context=trace.get_current_span().get_span_context())


def mark(span: Span, fault: BaseException) -> None:
    """Say in a span that it failed, and how: by our code or the class, never by a sentence that repeats an input."""
    span.set_attribute(names.ERROR_TYPE, getattr(fault, "code", None) or type(fault).__name__)
    span.set_status(StatusCode.ERROR)


@contextmanager
def stage(name: Literal["decode", "assemble", "render"]) -> Iterator[None]:
    """Trace one stage of a request, and note its seconds in the request's line, also where it fails."""
    began_at = time.monotonic()
    with tracer.start_as_current_span(
        names.STAGE_SPANS[name], record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as fault:
            mark(span, fault)
            raise
        finally:
            note(**{f"{name}_s": round(time.monotonic() - began_at, 4)})


@contextmanager
def recognizing() -> Iterator[None]:
    """Trace what a request waits for its first batch, and hand `here` to its batches.

    Where it fails while it waits, its line says how long it had: nobody else would.
    """
    span = tracer.start_span(names.QUEUE_SPAN)
    origin = Origin(context=trace.get_current_span().get_span_context(), queue=span, submitted_at=time.monotonic())
    with _handed_out(origin):
        try:
            yield
        except BaseException as fault:
            origin.stop_waiting(fault)
            raise
        finally:
            origin.stop_waiting()


@contextmanager
def speaking() -> Iterator[None]:
    """Hand `here` to the batches of a live session: one request, however long it lasts, so its spans stay bounded."""
    with _handed_out(Origin(context=trace.get_current_span().get_span_context())):
        yield


@contextmanager
def _handed_out(origin: Origin) -> Iterator[None]:
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
        _tell_remainder(origin.remainder)


def _tell_remainder(rest: _Remainder) -> None:
    if rest.batches:
        tracer.start_span(
            names.REMAINDER_SPAN,
            start_time=rest.began_ns,
            attributes={
                names.BATCHES: rest.batches,
                names.AUDIO: rest.audio_s,
                names.WINDOWS: rest.windows,
                names.REST_BEFORE: rest.rest_before,
                names.PEAK: rest.peak,
                names.REST_AFTER: rest.rest_after,
            },
        ).end(rest.ended_ns)


@dataclass(slots=True)
class Batch:
    """One batch as it runs."""

    span: Span
    """Its own; one that does nothing where all whom it serves have enough of them."""
    crowded: list[Origin]
    """Those who have."""


@contextmanager
def batch_span(
    requests: Iterable[Origin], *, audio_s: float, padded_s: float, windows: int, attention: str
) -> Iterator[Batch]:
    """Trace and count one batch, below the first of the requests it serves and linked to the others."""
    padding = 1 - audio_s / padded_s
    origins = list({id(origin): origin for origin in requests}.values())
    for origin in origins:
        origin.served()
    crowded = [origin for origin in origins if origin.batches > names.SPANS_PER_REQUEST]
    contexts = [origin.context for origin in origins if origin.batches <= names.SPANS_PER_REQUEST]
    batch = Batch(span=_span_below(contexts) if contexts else INVALID_SPAN, crowded=crowded)
    batch.span.set_attributes(
        {names.AUDIO: audio_s, names.SIZE: windows, names.PADDING: padding, names.ATTENTION: attention}
    )
    began_ns, began_at = time.time_ns(), time.monotonic()
    fault: Exception | None = None
    try:
        yield batch
    except Exception as raised:
        fault = raised
        mark(batch.span, raised)
        raise
    finally:
        batch.span.end()
        seconds = time.monotonic() - began_at
        record_batch(seconds, windows=windows, padding=padding, attention=attention, fault=fault)
        for origin in crowded:
            rest = origin.remainder
            rest.began_ns, rest.ended_ns = rest.began_ns or began_ns, time.time_ns()
            rest.batches += 1
            rest.audio_s += audio_s
            rest.windows += windows


def _span_below(contexts: Iterable[SpanContext]) -> Span:
    """A span whose parent is the first, and that is linked to the others; without a parent where nobody traces."""
    traced = list({context.span_id: context for context in contexts if context.is_valid}.values())
    return tracer.start_span(
        names.BATCH_SPAN,
        context=trace.set_span_in_context(NonRecordingSpan(traced[0]), Context()) if traced else Context(),
        links=[Link(other) for other in traced[1:]],
    )


def tell_footprint(batch: Batch, footprint: Footprint) -> None:
    """Add what a batch took."""
    batch.span.set_attributes({names.FOOTPRINT[kind]: nbytes for kind, nbytes in readings(footprint).items()})
    record_footprint(footprint)
    for rest in (origin.remainder for origin in batch.crowded):
        rest.rest_before = rest.rest_before or footprint.rest_before
        rest.peak, rest.rest_after = max(rest.peak, footprint.peak), footprint.rest_after
