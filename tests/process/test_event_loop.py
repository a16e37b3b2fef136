"""The event loop while long files come in: everything of the seat but the socket and the model, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import httpx
import numpy as np
import pytest

from seat.app import build_app
from seat.settings import Settings
from tests import sounds
from tests.fakes import FakeRecognizer, speech
from tests.process.seats import PATIENCE_S, TRANSCRIPTIONS, tell

pytestmark = pytest.mark.process  # it starts none, but takes as long as those that do

LONGEST_STALL_S = 0.05
"""What a probe, or somebody else's short clip, may be late because of a long file."""

TICK_S = 0.005

ATTEMPTS = 3
"""What the code does, it does each time; what others do on this machine, it does not."""

TALK = np.tile(speech([1, 2, 3, 4, 5, 6]) / 32_768, 100)
"""Eleven minutes, a word each second."""

TALK_S = 660.0

FILES: Mapping[str, Callable[[], bytes]] = {
    "wav": lambda: sounds.wav(TALK),
    "flac, resampled": lambda: sounds.written(np.repeat(TALK, 3), 48_000, "FLAC", "PCM_16"),
    "ogg": lambda: sounds.written(TALK, container="OGG", encoding="VORBIS"),
    "mp3": lambda: sounds.muxed(TALK, 16_000, "mp3"),
    "m4a": lambda: sounds.muxed(TALK, 16_000, "m4a"),
}


class Stalls:
    """How late callbacks of this loop came: its own work, and whoever held the GIL.

    Not counted is the time for which the kernel had given the processors to others: that of the thread which waited
    longest, as it may have been the one with the GIL.
    """

    def __init__(self) -> None:
        self.worst_s = 0.0
        self.worst_late_s = 0.0

    async def watch(self) -> None:
        """Tick until cancelled."""
        while True:
            before, began_at = _displaced_ns(), time.monotonic()
            await asyncio.sleep(TICK_S)
            late_s = time.monotonic() - began_at - TICK_S
            displaced_s = max(now - before.get(thread, now) for thread, now in _displaced_ns().items()) / 1e9
            self.worst_late_s = max(self.worst_late_s, late_s)
            self.worst_s = max(self.worst_s, late_s - displaced_s)

    async def during(self, work: Callable[[], object]) -> None:
        """Watch while another thread works."""
        watching = asyncio.create_task(self.watch())
        await asyncio.sleep(0)
        await asyncio.to_thread(work)
        watching.cancel()


def _displaced_ns() -> dict[str, int]:
    """Nanoseconds for which each thread of this process could have run, but waited for a processor."""
    found: dict[str, int] = {}
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            found[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return found


@contextlib.asynccontextmanager
async def client_of(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a whole seat in this process, ready."""
    app, service = build_app(settings, FakeRecognizer)
    transport = httpx.ASGITransport(app)
    async with service, httpx.AsyncClient(transport=transport, base_url="http://seat") as client:
        async with asyncio.timeout(PATIENCE_S):
            while (await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.01)
        yield client


@pytest.fixture
def frozen() -> Iterator[None]:
    """The heap as `seat.serve` leaves it: full collections do not walk all that pytest has imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("name", FILES)
async def test_long_files_never_stall_the_loop(name: str) -> None:
    """Three at once, eleven minutes each, are decoded, cut, heard, joined and written; no callback is 50 ms late."""
    file = FILES[name]()
    worst: list[float] = []
    while len(worst) < ATTEMPTS and min(worst, default=LONGEST_STALL_S) >= LONGEST_STALL_S:
        stalls = Stalls()
        async with client_of(Settings(warmup_seconds=(1.0,))) as client:
            watching = asyncio.create_task(stalls.watch())
            answers = await asyncio.gather(
                *(
                    client.post(
                        TRANSCRIPTIONS,
                        data={"model": "demo", "response_format": "verbose_json", "timestamp_granularities[]": "word"},
                        files={"file": ("talk", io.BytesIO(file))},
                    )
                    for _ in range(3)
                )
            )
            watching.cancel()
        for answer in answers:
            assert answer.json()["duration"] == pytest.approx(TALK_S, abs=0.1)
            assert len(answer.json()["words"]) >= TALK_S // 1.1
        worst.append(stalls.worst_s)
        tell(f"{name}: {stalls.worst_s * 1000:.1f} ms at worst, {stalls.worst_late_s * 1000:.1f} ms with others' work")
    assert min(worst) < LONGEST_STALL_S


async def test_the_watch_sees_what_it_watches_for() -> None:
    """A callback that blocks, and a thread that keeps the GIL: both count."""
    blocked, held, idle = Stalls(), Stalls(), Stalls()
    asyncio.get_running_loop().call_later(0.02, time.sleep, 2 * LONGEST_STALL_S)
    await blocked.during(_rest)
    await held.during(lambda: sum(range(20_000_000)))
    await idle.during(_rest)
    tell(f"blocked {blocked.worst_s:.3f} s, held {held.worst_s:.3f} s, idle {idle.worst_s:.3f} s")
    assert blocked.worst_s > LONGEST_STALL_S
    assert held.worst_s > LONGEST_STALL_S
    assert idle.worst_s < LONGEST_STALL_S


def _rest() -> None:
    threading.Event().wait(0.2)
