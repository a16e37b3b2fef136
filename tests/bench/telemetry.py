"""Time one request in process with tracing on, against the same request with it off.

    just bench-telemetry [--rounds N]

One process with one model, whose tracing is switched from request to request: two processes differ from each other by
some percent for as long as they live, and that was more than what is looked for here. A round is three requests, one
without tracing, one more, and one with it, in all six orders by turns. Both are compared with the first of their own
round; the table has the medians of these ratios with bootstrap intervals, and the second, off against off, shows what a
difference means that is none. The request is all that telemetry touches: server span, stages, batches, canonical line
and metrics, without HTTP. Spans leave between rounds: that is the exporter's own thread, and has a column of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import itertools
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from opentelemetry import trace

from seat import settings
from seat.ab.statistics import Estimate, compare
from seat.serve import freeze, load_nemo
from seat.service import Service
from seat.telemetry import configure_logging
from seat.telemetry.providers import set_up
from seat.telemetry.traces import tracer
from seat.wav import wav
from seat.web.access import with_access_line
from seat.web.recent import Recent
from tests.bench.rig import machine, speech

ROUNDS = {1: 600, 5: 300, 20: 180}
"""Seconds of audio, and rounds: about as long for each, and two minutes together. A multiple of six has all orders."""

LIMIT = 1.03
"""What tracing may cost: a request's time with it, in times without."""

WARM_UP = 6
"""Rounds that do not count."""


class _Sink(BaseHTTPRequestHandler):
    """Takes whatever comes."""

    taken = 0

    def do_POST(self) -> None:
        _Sink.taken += len(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _collector() -> Iterator[None]:
    """Somewhere to send to, which the environment names; metrics stay here, as without one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Sink) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for name in [name for name in os.environ if name.startswith("OTEL_")]:
            del os.environ[name]
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
        os.environ["OTEL_METRICS_EXPORTER"] = "none"
        yield
        server.shutdown()


class Switch(trace.Tracer):
    """The tracer that a collector gives a seat, or the one it has without, as is chosen for each request."""

    def __init__(self, traced: trace.Tracer) -> None:
        self._tracers = {True: traced, False: trace.NoOpTracer()}
        self.on = False

    def start_span(self, *arguments: Any, **options: Any) -> trace.Span:
        """As the tracer in force."""
        return self._tracers[self.on].start_span(*arguments, **options)

    def start_as_current_span(self, *arguments: Any, **options: Any) -> Any:
        """As the tracer in force."""
        return self._tracers[self.on].start_as_current_span(*arguments, **options)


class Bench:
    """One seat without HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._provider: Any = trace.get_tracer_provider()
        self._switch = Switch(self._provider.get_tracer("seat"))
        tracer._real_tracer = self._switch  # what stands for the provider's from its first span on
        self._app: Any = with_access_line(self._transcribe, Recent())
        self._content = b""

    async def _transcribe(self, _scope: Any, _receive: Any, send: Any) -> None:
        await self._service.transcribe(io.BytesIO(self._content))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def _ms(self, *, traced: bool) -> float:
        async def send(_message: Any) -> None:
            """Nobody listens."""

        self._switch.on = traced
        scope = {"type": "http", "method": "POST", "path": "/", "scheme": "http", "headers": []}
        began_at = time.perf_counter()
        await self._app(scope, None, send)
        return (time.perf_counter() - began_at) * 1e3

    async def run(self, seconds: int, rounds: int) -> float:
        """Print a row; returns the least that tracing may cost, by the interval's lower end."""
        self._content = wav(speech(seconds))
        took: dict[str, list[float]] = {"off": [], "again": [], "on": [], "sending": []}
        orders = itertools.cycle(itertools.permutations(("off", "again", "on")))
        for order in itertools.islice(orders, rounds + WARM_UP):
            for name in order:
                took[name].append(await self._ms(traced=name == "on"))
            began_at = time.perf_counter()
            self._provider.force_flush()
            took["sending"].append((time.perf_counter() - began_at) * 1e3)
        off, again, on, sending = (times[WARM_UP:] for times in took.values())
        control, cost = (compare([list(zip(times, off, strict=True))]) for times in (again, on))
        assert control.ratio
        assert cost.ratio
        print(
            f"| {seconds} s | {rounds} | {cost.b_median:.2f} | {cost.a_median:.2f} | {_written(control.ratio)} "
            f"| {_written(cost.ratio)} | {_verdict(cost.ratio)} | {statistics.median(sending):.2f} |",
            flush=True,
        )
        return cost.ratio.low


def _written(ratio: Estimate) -> str:
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _verdict(ratio: Estimate) -> str:
    if ratio.holds(LIMIT):
        return "cannot tell"
    return "within" if ratio.high < LIMIT else "beyond"


async def rows(rounds: int | None) -> float:
    """Print the rows; returns the most of what tracing costs at the least."""
    chosen = settings.read({})
    outlets = set_up(os.environ)
    async with Service(chosen, lambda: load_nemo(chosen), print, freeze) as service:
        await service.loaded()
        bench = Bench(service)
        least = [await bench.run(seconds, rounds or usual) for seconds, usual in ROUNDS.items()]
    outlets.shut_down()
    return max(least)


def main(rounds: int | None) -> int:
    """Print a table; 1 where tracing certainly costs more than it may."""
    print(f"{machine()}; medians, ms; ratios of the same round, with 95 % intervals\n")
    print(f"| audio | rounds | off | traced | off again/off | traced/off | {LIMIT} | sending |\n|{'---|' * 8}")
    with _collector(), Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        configure_logging("json")  # lines are written as ever, for nobody to read
        least = asyncio.run(rows(rounds))
    assert _Sink.taken, "nothing was sent"
    return int(least > LIMIT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="rounds for each length; a multiple of six")
    sys.exit(main(parser.parse_args().rounds))
