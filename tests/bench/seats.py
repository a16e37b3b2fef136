"""Put one, two and three seats behind one address, load them, and kill one: throughput, latency, errors.

    just bench-seats [--seats 1 2 3] [--seconds 20] [--callers 8]

Seats share nothing; nginx spreads requests over them, keeps an upload until one has answered, and gives it to a
second seat where the first is gone or full. Half-way through the run of several seats, one is killed without a word.
Every seat has the bundled model and one thread, so that cores are what they compete for. Needs nginx.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from seat.child import free_port
from seat.wav import wav
from tests.bench.load import LENGTHS_S, Outcome, one
from tests.bench.rig import machine, server, speech, wait_until_ready

SEAT = ("seat", "serve", "--port", "PORT", "--device", "cpu")

NGINX = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u;
    scgi_temp_path {folder}/s;
    client_max_body_size 1g;
    upstream seats {{
        least_conn;
        {servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://seats;
            proxy_read_timeout 600s;
            # Transcribing changes nothing, so a request may go to another seat; once, not from seat to seat.
            proxy_next_upstream error timeout http_503 non_idempotent;
            proxy_next_upstream_tries 2;
        }}
    }}
}}
"""


@dataclass(slots=True)
class Halves:
    """What a run gave before and after a seat was killed."""

    before: Outcome = field(default_factory=Outcome)
    after: Outcome = field(default_factory=Outcome)


@contextmanager
def nginx(port: int, seats: Sequence[str]) -> Iterator[None]:
    """One address before several."""
    with tempfile.TemporaryDirectory() as folder:
        servers = " ".join(f"server {each.removeprefix('http://')} max_fails=1 fail_timeout=5s;" for each in seats)
        configuration = Path(folder) / "nginx.conf"
        configuration.write_text(NGINX.format(folder=folder, servers=servers, port=port))
        # As root it would run its workers as somebody who may not write below the folder.
        user = ["-g", "user root;"] if os.geteuid() == 0 else []
        command = ["nginx", "-e", f"{folder}/errors", "-c", str(configuration), *user]
        with subprocess.Popen(command) as process:
            try:
                yield
            finally:
                process.terminate()


async def loaded(
    client: httpx.AsyncClient, callers: int, for_s: float, victim: subprocess.Popen[bytes] | None
) -> Halves:
    """Callers that send one clip after the other; half-way through, the victim is killed."""
    clips = {seconds: wav(speech(seconds)) for seconds in LENGTHS_S}
    halves, drawn = Halves(), random.Random(0)
    began_at = time.perf_counter()
    halves.before.took_s = halves.after.took_s = for_s / 2

    async def caller() -> None:
        while (passed_s := time.perf_counter() - began_at) < for_s:
            seconds = drawn.choice(LENGTHS_S)
            half = halves.before if passed_s < for_s / 2 else halves.after
            try:
                await one(client, seconds, clips[seconds], half)
            except httpx.TransportError:
                half.failed += 1

    async def kill() -> None:
        await asyncio.sleep(for_s / 2)
        if victim is not None:
            victim.kill()

    async with asyncio.TaskGroup() as group:
        group.create_task(kill())
        for _ in range(callers):
            group.create_task(caller())
    return halves


async def main(counts: Sequence[int], for_s: float, callers: int) -> None:
    """Print a table."""
    print(f"{machine()}, {callers} callers\n")
    print(
        "| seats | requests per s | p50 ms | p95 ms | 503 | other errors | one killed: requests per s | 503 | other |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for count in counts:
        door = free_port()
        with ExitStack() as stack:
            seats = [stack.enter_context(server(*SEAT, OMP_NUM_THREADS="1")) for _ in range(count)]
            for url, _ in seats:
                async with httpx.AsyncClient(base_url=url) as client:
                    await wait_until_ready(client)
            stack.enter_context(nginx(door, [url for url, _ in seats]))
            limits = httpx.Limits(max_connections=callers)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{door}", timeout=600, limits=limits) as client:
                await wait_until_ready(client)
                halves = await loaded(client, callers, for_s, seats[0][1] if count > 1 else None)
        before, after = halves.before, halves.after
        print(
            f"| {count} | {len(before.latencies_ms) / before.took_s:.1f} | "
            f"{before.percentile(0.5):.0f} | {before.percentile(0.95):.0f} | {before.refused} | {before.failed} |"
            + (
                f" {len(after.latencies_ms) / after.took_s:.1f} | {after.refused} | {after.failed} |"
                if count > 1
                else " | | |"
            ),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seats", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each number of seats")
    parser.add_argument("--callers", type=int, default=8)
    arguments = parser.parse_args()
    if shutil.which("nginx") is None:
        parser.error("nginx is not installed; Debian has it as nginx-light.")
    asyncio.run(main(arguments.seats, arguments.seconds, arguments.callers))
