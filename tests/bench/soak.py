"""Put a running seat under load for a while and tell whether its memory grows.

    just soak [--requests 1200] [--rate 8] [--shape sustained|burst] [--url http://127.0.0.1:8300] [--out soak]

Starts a seat of its own unless told of one. Memory is the process's resident memory and, where `/health` tells it, what
counts against the cap. Of the last two thirds of the run, the lowest reading of every FLOOR_EVERY_S counts. Writes
OUT.json and OUT.png.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import httpx

from seat.wav import wav
from tests.bench.rig import server, speech, wait_until_ready
from tests.bench.slope import Slope, floors, regress

LENGTHS_S = (1, 1, 2, 3, 3, 5, 8, 13, 20, 60)
"""Seconds of the clips, drawn with equal chance; the last is cut into windows."""

SAMPLE_EVERY_S = 0.5
FLOOR_EVERY_S = 5.0
WARM_UP_SHARE = 1 / 3
BURST = 16
"""Requests at once in the shape 'burst'."""


@contextmanager
def a_seat(url: str | None) -> Iterator[tuple[str, int | None]]:
    """Give the address of a seat, and its process number where it is ours."""
    if url:
        yield url, None
        return
    with server("seat", "serve", "--port", "PORT") as (address, process):
        yield address, process.pid


def resident_mib(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def load(client: httpx.AsyncClient, requests: int, rate: float, shape: str) -> Counter[int]:
    """Send requests at a rate, one by one or in bursts, and count the statuses."""
    drawn = random.Random(0)
    clips = {seconds: wav(speech(seconds)) for seconds in set(LENGTHS_S)}
    statuses: Counter[int] = Counter()

    async def one() -> None:
        clip = clips[drawn.choice(LENGTHS_S)]
        answer = await client.post(
            "/v1/audio/transcriptions", data={"model": "whisper-1"}, files={"file": ("clip.wav", clip)}
        )
        statuses[answer.status_code] += 1

    at_once = BURST if shape == "burst" else 1
    began_at = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(requests):
            due_at = began_at + (number // at_once) * at_once / rate
            await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            group.create_task(one())
    return statuses


async def sample(pid: int, readings: list[tuple[float, float]]) -> None:
    """Read memory until cancelled, as (minutes, MiB)."""
    began_at = time.monotonic()
    while True:
        readings.append(((time.monotonic() - began_at) / 60, resident_mib(pid)))
        await asyncio.sleep(SAMPLE_EVERY_S)


def plot(path: Path, readings: list[tuple[float, float]], slope: Slope, first: int) -> None:
    """Draw the readings, those that count, and the line through them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    minutes, mib = zip(*readings, strict=True)
    figure, axes = plt.subplots(figsize=(9, 4))
    axes.plot(minutes, mib, linewidth=0.8, label="resident memory")
    axes.axvspan(minutes[0], minutes[first], alpha=0.15, color="grey", label="warm-up, not counted")
    counted = floors(readings[first:], every=FLOOR_EVERY_S / 60)
    middle, level = (sum(values) / len(values) for values in zip(*counted, strict=True))
    ends = (minutes[first], minutes[-1])
    axes.plot(ends, [level + slope.value * (x - middle) for x in ends], linestyle="--", label=slope.verdict)
    axes.set(
        xlabel="minutes",
        ylabel="MiB",
        title=f"{slope.value:+.2f} MiB/min, 95 % interval {slope.low:+.2f} to {slope.high:+.2f}: {slope.verdict}",
    )
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


async def main(arguments: argparse.Namespace) -> None:
    """Run the load and print the verdict."""
    readings: list[tuple[float, float]] = []
    limits = httpx.Limits(max_connections=128)
    with a_seat(arguments.url) as (url, pid):
        async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
            await wait_until_ready(client)
            sampler = asyncio.create_task(sample(arguments.pid or pid, readings))
            began_at = time.monotonic()
            statuses = await load(client, arguments.requests, arguments.rate, arguments.shape)
            took_s = time.monotonic() - began_at
            sampler.cancel()
            health = (await client.get("/health")).json()
    first = int(len(readings) * WARM_UP_SHARE)
    minutes, mib = zip(*floors(readings[first:], every=FLOOR_EVERY_S / 60), strict=True)
    slope = regress(minutes, mib)
    report = {
        "date": time.strftime("%Y-%m-%d"),
        "shape": arguments.shape,
        "requests": arguments.requests,
        "seconds": round(took_s, 1),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "slope_mib_per_min": asdict(slope),
        "verdict": slope.verdict,
        "first_mib": round(mib[0], 1),
        "last_mib": round(mib[-1], 1),
        "most_mib": round(max(reading for _, reading in readings), 1),
        "health": health,
    }
    out = Path(arguments.out)
    out.with_suffix(".json").write_text(json.dumps(report | {"readings": readings}, indent=1))
    plot(out.with_suffix(".png"), readings, slope, first)
    print(json.dumps({key: value for key, value in report.items() if key != "health"}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1200)
    parser.add_argument("--rate", type=float, default=8.0, help="requests a second")
    parser.add_argument("--shape", choices=("sustained", "burst"), default="sustained")
    parser.add_argument("--url", help="a running seat; needs --pid")
    parser.add_argument("--pid", type=int, help="its process number")
    parser.add_argument("--out", default="soak", help="where to write OUT.json and OUT.png")
    asyncio.run(main(parser.parse_args()))
