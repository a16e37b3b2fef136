"""What is told of a request at its end, through the application as it is composed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from structlog.testing import capture_logs

from seat.telemetry import exchange, names, note

Spans = Callable[[str], list[ReadableSpan]]

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def _answer(status: int, *, method: str = "GET", route: str | None = None, error: str | None = None) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    with exchange(request_id="r1", method=method, path="/p", scheme="http", headers=headers) as answered:
        if error:
            note(error=error)
        answered.status, answered.route = status, route


@pytest.mark.usefixtures("tracer")
def test_the_server_span_continues_the_callers_trace(spans: Spans) -> None:
    """It is named by method and route, and the line has its trace."""
    with capture_logs() as lines:
        _answer(200, route="/v1/models")
    (span,) = spans("GET /v1/models")
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, CALLER)
    assert span.kind is trace.SpanKind.SERVER
    (line,) = lines
    assert (line["event"], line["trace_id"], line["request_id"]) == ("request", TRACE, "r1")
    assert dict(span.attributes or {}) == {
        names.METHOD: "GET",
        names.PATH: "/p",
        names.SCHEME: "http",
        names.REQUEST_ID: "r1",
        names.STATUS: 200,
        names.ROUTE: "/v1/models",
    }


@pytest.mark.usefixtures("tracer")
@pytest.mark.parametrize(
    "status, error, fails",
    [
        (200, None, False),
        (200, "gpu_memory_limit", True),
        (200, "invalid_audio", False),
        (101, "internal_error", True),
        (101, "slow_reader", False),
        (400, "invalid_audio", False),
        (499, "client_disconnected", False),
        (500, "recognition_failed", True),
        (503, "queue_full", True),
        (0, None, True),
    ],
)
def test_only_what_the_server_owed_is_its_error(spans: Spans, status: int, error: str | None, *, fails: bool) -> None:
    """A client's mistake is not, nor one that hung up, and that is marked; no answer at all is.

    A stream and a live session have their status before their fault, so there the code decides.
    """
    _answer(status, error=error)
    (span,) = spans("GET")
    assert (span.status.status_code is trace.StatusCode.ERROR) is fails
    about = span.attributes or {}
    assert (about.get(names.ERROR_TYPE), about.get(names.CANCELLED, False)) == (error, status == 499)


@pytest.mark.usefixtures("tracer")
def test_a_path_without_a_route_names_no_span(spans: Spans) -> None:
    """Else a scanner would make a name of every path it tries, and of every method it makes up."""
    _answer(404, method="FROBISH", error="unknown_url")
    (span,) = spans("_OTHER")
    assert names.ROUTE not in (span.attributes or {})


@pytest.mark.usefixtures("tracer")
def test_a_request_that_raises_is_told_all_the_same() -> None:
    """The line is written whatever happens, and the fault goes on."""

    def fails() -> None:
        with exchange(request_id="r2", method="GET", path="/p", scheme="http", headers={}):
            raise ZeroDivisionError

    with capture_logs() as lines, pytest.raises(ZeroDivisionError):
        fails()
    assert [(line["event"], line["status"]) for line in lines] == [("request", 0)]
