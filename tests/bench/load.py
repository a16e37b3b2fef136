"""Put callers on a seat: throughput and latency by their number, clips beside a long file.

    just bench-load [--seconds 15] [--out load]

The same clips go to a seat and, as a yardstick, to NeMo's transcribe() behind one lock (`tests.bench.plain_server`),
each a process of its own; the levels are interleaved. Writes OUT.png.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import numpy as np

from seat.wav import wav
from tests.bench.rig import machine, server, speech, wait_until_ready

CALLERS = (1, 4, 16, 64)
LENGTHS_S = (1, 2, 3, 4, 5, 6, 7, 8)
LONG_S = 3600
LONG_TURNS = 3
"""How often the long file is sent, with clips beside it and without."""
CLIPS_A_SECOND = 2.0
"""Clips beside the long file, of the same lengths as without one."""


@dataclass(slots=True)
class Outcome:
    """What one level of load gave."""

    latencies_ms: list[float] = field(default_factory=list)
    audio_s: float = 0.0
    took_s: float = 0.0
    refused: int = 0
    failed: int = 0

    def percentile(self, share: float) -> float:
        """Latency that this share of the requests stays under, in milliseconds."""
        return float(np.quantile(self.latencies_ms, share)) if self.latencies_ms else float("nan")

    @property
    def rate(self) -> float:
        """Seconds of audio per second."""
        return self.audio_s / self.took_s


async def one(client: httpx.AsyncClient, seconds: int, clip: bytes, outcome: Outcome) -> None:
    """Send one clip and note how it went."""
    began_at = time.perf_counter()
    answer = await client.post("/v1/audio/transcriptions", data={"model": "demo"}, files={"file": ("clip.wav", clip)})
    if answer.is_success:
        outcome.latencies_ms.append((time.perf_counter() - began_at) * 1e3)
        outcome.audio_s += seconds
    elif answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        outcome.refused += 1
    else:
        outcome.failed += 1


async def level(client: httpx.AsyncClient, callers: int, clips: dict[int, bytes], for_s: float) -> Outcome:
    """So many callers, each sending one clip after the other."""
    outcome, drawn = Outcome(), random.Random(callers)
    began_at = time.perf_counter()

    async def caller() -> None:
        while time.perf_counter() - began_at < for_s:
            seconds = drawn.choice(LENGTHS_S)
            await one(client, seconds, clips[seconds], outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    outcome.took_s = time.perf_counter() - began_at
    return outcome


async def send_long(url: str, path: Path) -> float:
    """Send a file in a process of its own, else clips wait for it here; gives the seconds it took."""
    began_at = time.perf_counter()
    form = ("-F", "model=demo", "-F", f"file=@{path}")
    sender = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--fail", "--output", "/dev/null", f"{url}/v1/audio/transcriptions", *form
    )
    if await sender.wait():
        message = f"curl ended with {sender.returncode}"
        raise RuntimeError(message)
    return time.perf_counter() - began_at


async def beside_a_long_file(client: httpx.AsyncClient, clips: dict[int, bytes], for_s: float) -> None:
    """Print how a long file and clips fare beside each other and alone, in turns."""
    alone: list[float] = []
    beside: list[float] = []
    idle, shorts, drawn = Outcome(), Outcome(), random.Random(LONG_S)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "long.wav"
        path.write_bytes(wav(speech(LONG_S)))
        for _ in range(LONG_TURNS):
            idle.latencies_ms += (await level(client, 1, clips, for_s)).latencies_ms
            alone.append(await send_long(str(client.base_url), path))
            async with asyncio.TaskGroup() as group:
                file = group.create_task(send_long(str(client.base_url), path))
                while not file.done():
                    seconds = drawn.choice(LENGTHS_S)
                    group.create_task(one(client, seconds, clips[seconds], shorts))
                    await asyncio.sleep(1 / CLIPS_A_SECOND)
            beside.append(file.result())
    alone_s, beside_s = statistics.median(alone), statistics.median(beside)
    print(
        f"\nOne hour of audio: {alone_s:.1f} s alone, {beside_s:.1f} s beside {CLIPS_A_SECOND:g} clips a second "
        f"({beside_s / alone_s:.2f}x, medians of {LONG_TURNS}); of {len(shorts.latencies_ms)} clips p50 "
        f"{shorts.percentile(0.5):.0f} ms, p95 {shorts.percentile(0.95):.0f} ms, p99 {shorts.percentile(0.99):.0f} ms "
        f"({shorts.percentile(0.99) / idle.percentile(0.5):.1f}x the p50 of {idle.percentile(0.5):.0f} ms that they "
        f"have without the file), {shorts.refused + shorts.failed} errors."
    )


async def main(for_s: float, out: Path) -> None:
    """Print two tables and draw the first."""
    clips = {seconds: wav(speech(seconds)) for seconds in LENGTHS_S}
    limits = httpx.Limits(max_connections=200)
    with ExitStack() as stack:
        urls = {
            "seat": stack.enter_context(server("seat", "serve", "--port", "PORT"))[0],
            "one lock": stack.enter_context(server("tests.bench.plain_server", "PORT"))[0],
        }
        clients = {name: httpx.AsyncClient(base_url=url, timeout=600, limits=limits) for name, url in urls.items()}
        for client in clients.values():
            await wait_until_ready(client)
            await level(client, 1, clips, 2)
        print(f"{machine()}\n")
        print("| callers | server | audio s per s | p50 ms | p95 ms | p99 ms | 503 | other errors |")
        print("|---|---|---|---|---|---|---|---|")
        rates: dict[str, list[float]] = {name: [] for name in clients}
        for callers in CALLERS:
            for name, client in clients.items():
                found = await level(client, callers, clips, for_s)
                rates[name].append(found.rate)
                print(
                    f"| {callers} | {name} | {found.rate:.1f} | {found.percentile(0.5):.0f} | "
                    f"{found.percentile(0.95):.0f} | {found.percentile(0.99):.0f} | {found.refused} | {found.failed} |",
                    flush=True,
                )
        await beside_a_long_file(clients["seat"], clips, for_s)
    draw(out, rates)


def draw(out: Path, rates: dict[str, list[float]]) -> None:
    """Throughput by callers."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, values in rates.items():
        axes.plot(CALLERS, values, marker="o", label=name)
    axes.set(xscale="log", xlabel="callers", ylabel="seconds of audio per second", ylim=(0, None))
    axes.set_xticks(CALLERS, [str(callers) for callers in CALLERS])
    axes.legend()
    figure.tight_layout()
    figure.savefig(out.with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="for each level and server")
    parser.add_argument("--out", type=Path, default=Path("load"))
    arguments = parser.parse_args()
    asyncio.run(main(arguments.seconds, arguments.out))
