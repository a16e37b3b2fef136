"""Receive what a seat sends by OTLP, over HTTP and over gRPC, as a collector would. Knows the protocol only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PROTOCOLS = ("http/protobuf", "grpc")


def facts(attributes: Any) -> dict[str, Any]:
    """Attributes as a dictionary."""
    return {fact.key: getattr(fact.value, fact.value.WhichOneof("value")) for fact in attributes}


class Receiver:
    """Where a seat sends; it keeps everything, decoded."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.spans: list[Span] = []
        self.senders: list[dict[str, Any]] = []
        """Resource attributes, once for each message of traces."""
        self.metrics: dict[str, list[Any]] = {}
        """Data points of the newest message, by the metric's name."""
        self.units: dict[str, str] = {}

    def environment(self, protocol: str, port: int) -> dict[str, str]:
        """What makes a seat send here, often enough for a test."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }

    def take_traces(self, message: traces.ExportTraceServiceRequest) -> None:
        """Keep spans."""
        with self._lock:
            for of in message.resource_spans:
                self.senders.append(facts(of.resource.attributes))
                self.spans += [span for scope in of.scope_spans for span in scope.spans]

    def take_metrics(self, message: metrics.ExportMetricsServiceRequest) -> None:
        """Keep the newest figures, which hold all that came before."""
        with self._lock:
            for of in message.resource_metrics:
                for metric in (metric for scope in of.scope_metrics for metric in scope.metrics):
                    data = getattr(metric, metric.WhichOneof("data"))
                    self.metrics[metric.name], self.units[metric.name] = list(data.data_points), metric.unit


class _Traces(traces_grpc.TraceServiceServicer):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802  the service's name
        self._receiver.take_traces(request)
        return traces.ExportTraceServiceResponse()


class _Metrics(metrics_grpc.MetricsServiceServicer):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802  the service's name
        self._receiver.take_metrics(request)
        return metrics.ExportMetricsServiceResponse()


@contextmanager
def receiving(protocol: str) -> Iterator[tuple[Receiver, dict[str, str]]]:
    """Receive by one protocol; gives the receiver, and the environment that makes a seat send to it."""
    receiver = Receiver()
    with (_http if protocol == PROTOCOLS[0] else _grpc)(receiver) as port:
        yield receiver, receiver.environment(protocol, port)


@contextmanager
def _grpc(receiver: Receiver) -> Iterator[int]:
    server = grpc.server(ThreadPoolExecutor(2))
    traces_grpc.add_TraceServiceServicer_to_server(_Traces(receiver), server)
    metrics_grpc.add_MetricsServiceServicer_to_server(_Metrics(receiver), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=None).wait()


@contextmanager
def _http(receiver: Receiver) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                receiver.take_traces(traces.ExportTraceServiceRequest.FromString(body))
            else:
                receiver.take_metrics(metrics.ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
