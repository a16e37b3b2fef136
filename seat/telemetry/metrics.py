"""Record what `names.METRICS` lists, and let it be read. Knows OpenTelemetry's meter; not what a number means.

Without a provider every instrument is one of the API's that do nothing. No value enters that is not finite: one
infinite sum in a histogram would spoil its averages for as long as the process lives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from seat.memory import Footprint
from seat.telemetry import names
from seat.telemetry.names import Metric

Reading = tuple[float, Mapping[str, str]]
"""A value and its attributes."""

_NONE: Final[Mapping[str, Any]] = {}
_METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
"""Of RFC 9110 and 5789; the conventions call others '_OTHER'."""
OTHER: Final = "_OTHER"
"""What the conventions call a value outside a closed set."""
ANONYMOUS: Final = "anonymous"
"""Whoever asks a seat that asks for no key."""

_meter = metrics.get_meter("seat")


def _instrument(metric: Metric) -> Callable[[float, Mapping[str, Any]], None]:
    facts = {"name": metric.name, "unit": metric.unit, "description": metric.says}
    if metric.kind == "counter":
        return _meter.create_counter(**facts).add
    if metric.kind == "gauge":
        return _meter.create_gauge(**facts).set
    return _meter.create_histogram(**facts, explicit_bucket_boundaries_advisory=metric.bounds).record


_RECORD: Final = {
    metric.name: _instrument(metric) for metric in names.METRICS if metric.kind in {"counter", "gauge", "histogram"}
}


def record(metric: Metric, value: float, attributes: Mapping[str, Any] = _NONE) -> None:
    """Count, set or sort in a value, as the metric's kind has it; what is not finite is dropped."""
    if math.isfinite(value):
        _RECORD[metric.name](value, attributes)


def observe(metric: Metric, read: Callable[[], Iterable[Reading]]) -> None:
    """Read values whenever somebody collects.

    Args:
        metric: An 'observed' or 'counted' one.
        read: Called on the collector's thread: it may read, but neither wait nor change anything.
    """

    def observations(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, attributes) for value, attributes in read() if math.isfinite(value)]

    facts = {"name": metric.name, "unit": metric.unit, "description": metric.says}
    if metric.kind == "counted":
        _meter.create_observable_counter(**facts, callbacks=[observations])
    else:
        _meter.create_observable_gauge(**facts, callbacks=[observations])


def begin_at_zero() -> None:
    """Let every counter exist before it first counts: Prometheus sees no increase in a series that begins at 1."""
    record(names.CANCELLATIONS, 0)
    record(names.STALLS, 0)
    record(names.LIVE_AUDIO, 0, {names.CLIENT: ANONYMOUS})
    for code in names.REJECTIONS:
        record(names.ADMISSION_REJECTIONS, 0, {names.ERROR_TYPE: code})
    for code in (*names.FAULTS, *names.LIVE_REFUSALS):
        record(names.LIVE_ERRORS, 0, {names.ERROR_TYPE: code})


def known_method(method: str) -> str:
    """A method as the conventions have it."""
    return method if method in _METHODS else OTHER


def record_request(line: Mapping[str, Any], about: Mapping[str, Any], total_s: float) -> None:
    """Record a request from the facts of its canonical line, so that the two always add up.

    Args:
        line: Its facts.
        about: Its attributes by the HTTP conventions.
        total_s: Seconds that it took.
    """
    if about.get(names.STATUS) != HTTPStatus.SWITCHING_PROTOCOLS:  # a live session lasts as long as somebody speaks
        _record_durations(line, about, total_s)
    elif "error" in line:
        record(names.LIVE_ERRORS, 1, {names.ERROR_TYPE: line["error"]})
    error = line.get("error")
    if error in names.REJECTIONS:
        record(names.ADMISSION_REJECTIONS, 1, {names.ERROR_TYPE: error})
    if error == names.HUNG_UP:
        record(names.CANCELLATIONS, 1)


def _record_durations(line: Mapping[str, Any], about: Mapping[str, Any], total_s: float) -> None:
    record(names.REQUEST_DURATION, total_s, about)
    for stage in names.STAGES:
        if (seconds := line.get(f"{stage}_s")) is not None:
            record(names.STAGE_DURATION, seconds, {names.STAGE: stage})
    if (audio_s := line.get("audio_s")) is not None:
        record(names.AUDIO_DURATION, audio_s, {names.CLIENT: line.get("client", ANONYMOUS)})
        if audio_s > 0:
            record(names.REAL_TIME_FACTOR, line.get("inference_s", math.nan) / audio_s)


def record_batch(seconds: float, *, windows: int, padding: float, attention: str, fault: Exception | None) -> None:
    """Record one batch, run once."""
    about = {names.ATTENTION: attention}
    if fault is not None:
        about[names.ERROR_TYPE] = getattr(fault, "code", None) or OTHER
    record(names.BATCH_DURATION, seconds, about)
    record(names.BATCH_SIZE, windows)
    record(names.BATCH_PADDING, padding)


def record_footprint(footprint: Footprint) -> None:
    """Record what the last batch took."""
    for kind, nbytes in readings(footprint).items():
        record(names.BATCH_MEMORY, nbytes, {names.KIND: kind})


def readings(footprint: Footprint) -> dict[str, int]:
    """What a batch took, in bytes, by kind."""
    held = footprint.allocator
    return {"rest_before": footprint.rest_before, "peak": footprint.peak, "rest_after": footprint.rest_after} | (
        {"reserved": held.reserved, "allocated": held.allocated} if held else {}
    )
