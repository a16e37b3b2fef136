"""What the standard variables mean here."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from seat.errors import InvalidSettings
from seat.telemetry.providers import Exposition, protocol

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    "environment, traces, metrics",
    [
        ({}, None, None),
        (HERE, "http/protobuf", "http/protobuf"),
        (HERE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc", "grpc"),
        (HERE | {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}, "http/protobuf", "grpc"),
        (HERE | {"OTEL_METRICS_EXPORTER": "none"}, "http/protobuf", None),
        (HERE | {"OTEL_SDK_DISABLED": "true"}, None, None),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, "http/protobuf", None),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "http/protobuf", None),
    ],
)
def test_a_signal_leaves_where_a_collector_is_named(
    environment: dict[str, str], traces: str | None, metrics: str | None
) -> None:
    """And by the protocol that is asked for, for it or for all; nothing leaves otherwise."""
    assert (protocol(environment, "TRACES"), protocol(environment, "METRICS")) == (traces, metrics)


@pytest.mark.parametrize(
    "environment", [HERE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, {"OTEL_TRACES_EXPORTER": "zipkin"}]
)
def test_what_a_seat_does_not_speak_stops_the_start(environment: dict[str, str]) -> None:
    """Nobody waits for traces that never come."""
    with pytest.raises(InvalidSettings, match="OTEL_"):
        protocol(environment, "TRACES")


def test_a_reading_that_hangs_holds_one_thread() -> None:
    """Others get the reading before, at once."""
    begun, ends = threading.Event(), threading.Event()

    class Hangs:
        readings = 0

        def collect(self) -> Iterable[Metric]:
            self.readings += 1
            if self.readings == 2:
                begun.set()
                ends.wait(10)
            yield GaugeMetricFamily("reading", "counts", value=self.readings)

    registry = CollectorRegistry(auto_describe=False)
    exposition = Exposition(registry)
    assert exposition() == b""
    registry.register(Hangs())
    assert b"reading 1.0" in exposition()
    caught = threading.Thread(target=exposition)
    caught.start()
    begun.wait(10)
    assert b"reading 1.0" in exposition()
    ends.set()
    caught.join(10)
    assert b"reading 3.0" in exposition()
