"""Time one request in process with tracing on, against the same request with it off.

    just bench-telemetry [--rounds N]

Three processes with a model each are asked in turn, who goes first changing every round: one that traces and sends to a
receiver here, one that does not, and a second one that does not, which shows what a difference means that is none.
The request is all that telemetry touches: server span, stages, batches, canonical line and metrics, without HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from seat import settings
from seat.serve import load_nemo
from seat.service import Service
from seat.telemetry import configure_logging
from seat.telemetry.providers import set_up
from seat.wav import wav
from seat.web.access import with_access_line
from seat.web.recent import Recent
from tests.bench.rig import machine, rotated, speech

LENGTHS_S = (1, 5)
LIMIT = 1.03
"""What tracing may cost: the median with it, in medians without."""


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
def _sink() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Sink) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def serve_standard_input() -> None:
    """Make a request of so many seconds for each number that comes in, and answer with its milliseconds."""
    outlets = set_up(os.environ)
    chosen = settings.read({})
    contents = {seconds: wav(speech(seconds)) for seconds in LENGTHS_S}
    asked = 0

    async def transcribe(_scope: Any, _receive: Any, send: Any) -> None:
        await service.transcribe(io.BytesIO(contents[asked]))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(_message: Any) -> None:
        """Nobody listens."""

    app = with_access_line(transcribe, Recent())
    async with Service(chosen, lambda: load_nemo(chosen), print) as service:
        await service.loaded()
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = int(line)
            scope = {"type": "http", "method": "POST", "path": "/", "scheme": "http", "headers": []}
            began_at = time.perf_counter()
            await app(scope, None, send)
            print((time.perf_counter() - began_at) * 1e3, flush=True)
    outlets.shut_down()


class Contender:
    """A process that makes requests when told to."""

    def __init__(self, stack: ExitStack, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "tests.bench.telemetry", "--serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=inherited | environment,
                text=True,
            )
        )
        assert self._process.stdout
        while self._process.stdout.readline() != "ready\n":
            assert self._process.poll() is None, "it ended"

    def ms(self, seconds: int) -> float:
        """Milliseconds of one request."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def main(rounds: int) -> None:
    """Print a table; exit with 1 where tracing costs more than it may."""
    print(f"{machine()}, median of {rounds}, ms\n")
    print("| audio | off | off again | tracing | off again/off | tracing/off |\n|---|---|---|---|---|---|")
    ratios = []
    with _sink() as url, ExitStack() as stack:
        contenders = {
            "off": Contender(stack),
            "again": Contender(stack),
            "on": Contender(stack, OTEL_EXPORTER_OTLP_ENDPOINT=url),
        }
        for seconds in LENGTHS_S:
            times: dict[str, list[float]] = {name: [] for name in contenders}
            for turn in range(rounds + 3):  # the first three do not count
                for name in rotated(list(contenders), turn):
                    times[name].append(contenders[name].ms(seconds))
            off, again, on = (statistics.median(times[name][3:]) for name in ("off", "again", "on"))
            ratios.append(on / off)
            print(
                f"| {seconds} s | {off:.2f} | {again:.2f} | {on:.2f} | {again / off:.3f} | {on / off:.3f} |", flush=True
            )
        assert _Sink.taken, "nothing was sent"
    sys.exit(max(ratios) > LIMIT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--serve", action="store_true", help="be one of the processes")
    given = parser.parse_args()
    if given.serve:
        configure_logging("json")
        asyncio.run(serve_standard_input())
    else:
        main(given.rounds)
