"""Set OpenTelemetry up for one process, and end it in time. Knows the standard ``OTEL_*`` variables; no metric.

Metrics are always kept for ``/metrics``. Traces, and metrics by OTLP, begin where a collector is named; before that no
exporter is even imported. What goes out goes out on the SDK's own threads: a collector that is away costs neither the
event loop nor the GPU thread anything.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from prometheus_client import CollectorRegistry, generate_latest

from seat import __version__
from seat.errors import InvalidSettings
from seat.telemetry.metrics import begin_at_zero

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

FLUSH_S: Final = 3.0
"""Seconds that the last spans and metrics get to leave when the process ends."""

PROTOCOLS: Final = ("http/protobuf", "grpc")
"""Values of ``OTEL_EXPORTER_OTLP_PROTOCOL``; the first one where it is not set, as the specification has it."""

Signal = Literal["TRACES", "METRICS"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlets:
    """How what is measured leaves the process."""

    exposition: Callable[[], bytes]
    """All metrics as Prometheus reads them; it takes milliseconds, and may be called on any thread."""
    shut_down: Callable[[], None]
    """Send what is left, for `FLUSH_S` at most, and stop."""


def protocol(environment: Mapping[str, str], signal: Signal) -> str | None:
    """How a signal leaves by OTLP; None where it does not: no collector is named, or it is switched off.

    Raises:
        InvalidSettings: The exporter or the protocol is none that a seat has.
    """
    exporter = environment.get(f"OTEL_{signal}_EXPORTER", "")
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return None
    if exporter not in {"", "otlp"}:
        raise InvalidSettings(problems=[f"OTEL_{signal}_EXPORTER={exporter!r}: a seat has 'otlp' and 'none'"])
    if not exporter and not any(environment.get(name) for name in endpoints):
        return None
    name = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    name = name if environment.get(name) else "OTEL_EXPORTER_OTLP_PROTOCOL"
    asked = environment.get(name) or PROTOCOLS[0]
    if asked not in PROTOCOLS:
        raise InvalidSettings(problems=[f"{name}={asked!r}: a seat speaks {' and '.join(PROTOCOLS)}"])
    return asked


def set_up(environment: Mapping[str, str]) -> Outlets:
    """Give the process its providers; once, before the first request.

    Raises:
        InvalidSettings: The environment asks for an exporter or a protocol that a seat does not have.
    """
    traces, pushed = protocol(environment, "TRACES"), protocol(environment, "METRICS")
    resource = _resource()
    registry = CollectorRegistry()
    readers: list[MetricReader] = [PrometheusMetricReader(registry=registry, scope_info_enabled=False)]
    if pushed:
        readers.append(PeriodicExportingMetricReader(_metric_exporter(pushed)))
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    metrics.set_meter_provider(meters)
    begin_at_zero()
    shut_downs = [_trace(resource, _span_exporter(traces))] if traces else []
    shut_downs.append(lambda: meters.shutdown(timeout_millis=FLUSH_S * 1000))
    return Outlets(exposition=Exposition(registry), shut_down=lambda: _within(FLUSH_S, shut_downs))


class Exposition:
    """All metrics as text, collected by one caller at a time: two at once would share out one reading between them.

    Who asks meanwhile gets the reading before. So a driver that hangs holds one thread, and not one more every scrape.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._collecting = threading.Lock()
        self._latest = b""

    def __call__(self) -> bytes:
        """Collect, unless somebody does."""
        if self._collecting.acquire(blocking=False):
            try:
                self._latest = generate_latest(self._registry)
            finally:
                self._collecting.release()
        return self._latest


def _resource() -> Resource:
    """Who sends; what ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` say goes before what is said here."""
    ours = {"service.name": "seat", "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    return Resource.create(ours).merge(OTELResourceDetector().detect())


def _trace(resource: Resource, exporter: SpanExporter) -> Callable[[], None]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(tracers)
    return tracers.shutdown


def _span_exporter(protocol: str) -> SpanExporter:
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as ByGrpc

        return ByGrpc()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as ByHttp

    return ByHttp()


def _metric_exporter(protocol: str) -> MetricExporter:
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as ByGrpc

        return ByGrpc()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as ByHttp

    return ByHttp()


def _within(seconds: float, calls: list[Callable[[], None]]) -> None:
    """Make calls side by side on threads that the process's end does not wait for."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    ends_at = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, ends_at - time.monotonic()))
