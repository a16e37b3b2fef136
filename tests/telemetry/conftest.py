"""The process's providers, which can be set only once, with exporters that keep what they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

Points = dict[tuple[str, ...], float]
"""Values of one metric, or sums of a histogram, by the values of its attributes in the order of their names."""


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """Keeps spans."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> trace.Tracer:  # noqa: ARG001  it sets the provider
    """A tracer of the process's provider."""
    return trace.get_tracer("test")


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[Callable[[str], list[ReadableSpan]]]:
    """The spans of a name that this test has ended, in order."""
    exporter.clear()
    yield lambda name: [span for span in exporter.get_finished_spans() if span.name == name]
    exporter.clear()


@pytest.fixture(scope="session")
def reader() -> InMemoryMetricReader:
    """Keeps metrics; from the first test that asks for it to the end of the run."""
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    return reader


@pytest.fixture
def measured(reader: InMemoryMetricReader) -> Callable[[str], Points]:
    """What a metric of a name holds now."""

    def measured(name: str) -> Points:
        data = reader.get_metrics_data()
        found = [
            metric
            for of in (data.resource_metrics if data else ())
            for in_ in of.scope_metrics
            for metric in in_.metrics
        ]
        return {
            tuple(str(value) for _, value in sorted((point.attributes or {}).items())): getattr(
                point, "sum", getattr(point, "value", None)
            )
            for metric in found
            if metric.name == name
            for point in metric.data.data_points
        }

    return measured
