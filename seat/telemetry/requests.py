"""Tell of one request, once and at its end: server span, canonical line and metrics, all from the same facts.

Knows the conventions' names for HTTP; nothing of what is served.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from opentelemetry import propagate
from opentelemetry.trace import Span, SpanKind, StatusCode

from seat.telemetry import names
from seat.telemetry.line import noted, open_request
from seat.telemetry.logs import log
from seat.telemetry.metrics import ANONYMOUS, known_method, record, record_request
from seat.telemetry.traces import tracer


@dataclass(slots=True)
class Exchange:
    """What is known of a request once it has been answered."""

    status: int = 0
    """Of the answer; 0 where there was none."""
    route: str | None = None
    """The template of its path; None where no route matched."""
    told: dict[str, Any] = field(default_factory=dict)
    """What its line said, once it was written."""


@contextmanager
def exchange(*, request_id: str, method: str, path: str, scheme: str, headers: Mapping[str, str]) -> Iterator[Exchange]:
    """Trace a request below the span that its headers name, and tell of it at the end.

    Args:
        request_id: That of the answer.
        method: As it may be written into a log.
        path: As it may be written into a log.
        scheme: 'http' or 'https'.
        headers: By lower-case name; ``traceparent`` and whatever else ``OTEL_PROPAGATORS`` reads.
    """
    answered = Exchange()
    known = known_method(method)
    with tracer.start_as_current_span(
        known,
        context=propagate.extract(headers),
        kind=SpanKind.SERVER,
        attributes={names.METHOD: known, names.PATH: path, names.SCHEME: scheme, names.REQUEST_ID: request_id},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        line = open_request(request_id=request_id, method=method, path=path)
        if (context := span.get_span_context()).is_valid:
            line["trace_id"] = f"{context.trace_id:032x}"
        began_at = time.monotonic()
        try:
            yield answered
        finally:
            total_s = round(time.monotonic() - began_at, 4)
            about = {names.METHOD: known, names.SCHEME: scheme, names.STATUS: answered.status}
            about |= {names.ROUTE: answered.route} if answered.route else {}
            about |= {names.ERROR_TYPE: line["error"]} if "error" in line else {}
            record_request(line, about, total_s)
            if span.is_recording():
                _complete(span, line, about)
            answered.told = {"status": answered.status, "total_s": total_s} | line
            log.info("request", status=answered.status, total_s=total_s, **line)


def count_live_audio(seconds: float) -> None:
    """Count audio of the live session that this task works for, as it comes: a session may last for hours."""
    record(names.LIVE_AUDIO, seconds, {names.CLIENT: noted("client") or ANONYMOUS})


def _complete(span: Span, line: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Give the server span its name and all that its line knows. Only a fault of ours is an error of a server."""
    span.update_name(f"{about[names.METHOD]} {about[names.ROUTE]}" if names.ROUTE in about else about[names.METHOD])
    span.set_attributes(dict(about))
    told = {names.AUDIO: "audio_s", names.WINDOWS: "windows", names.CLIENT: "client", names.ENDED: "ended"}
    span.set_attributes({name: line[key] for name, key in told.items() if line.get(key) is not None})
    if line.get("error") == names.HUNG_UP:
        span.set_attribute(names.CANCELLED, value=True)
    if line.get("error") in names.FAULTS or not 0 < about[names.STATUS] < HTTPStatus.INTERNAL_SERVER_ERROR:
        span.set_status(StatusCode.ERROR)
