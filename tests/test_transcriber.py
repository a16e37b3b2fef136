"""One upload after the other on its way to words: who is refused before it is read, and who goes."""

from __future__ import annotations

import asyncio
import io
import math
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from seat.errors import QueueFull
from seat.executor import Executor
from seat.hearing import Listeners
from seat.memory import Governor
from seat.meter import MIB
from seat.queueing import QueueLimits
from seat.recognizer import Waveform
from seat.scheduler import Scheduler
from seat.transcriber import Transcriber, TranscriberLimits
from seat.transcript import Timings, Transcript
from seat.wav import wav
from seat.windows import WindowLimits
from tests.fakes import VOCABULARY, FakeRecognizer, speech

LIMITS = TranscriberLimits(
    windows=WindowLimits.of_seconds(15, (3, 2)),
    join="independent",
    audio_s=None,
    deadline_s=30,
    requests=8,
    decoded_nbytes=100 * MIB,
    decoders=1,
)
CLIP = wav(speech([1, 2]))


class Crowd:
    """A transcriber whose model is in a call that does not end before the crowd leaves."""

    def __init__(self, transcriber: Transcriber, scheduler: Scheduler) -> None:
        self.transcriber, self._scheduler = transcriber, scheduler
        self._inside: list[asyncio.Task[tuple[Transcript, Timings]]] = []

    def come(self, source: io.BytesIO, deadline_s: float = math.inf) -> asyncio.Task[tuple[Transcript, Timings]]:
        """Bring a file."""
        transcribing = self.transcriber.transcribe(source, Listeners(), deadline_s=deadline_s)
        self._inside.append(asyncio.create_task(transcribing))
        return self._inside[-1]

    async def wait_for(self, *, running: int, waiting: int) -> None:
        """Wait until so many run, and so many others wait for the model."""
        while True:
            now = self._scheduler.statistics()
            if (now.running, now.queue.requests) == (running, waiting):
                return
            await asyncio.sleep(0.001)

    async def fill(self) -> None:
        """Have one run and a hasty one wait; who comes next waits for more than a day, as far as is known."""
        self.come(io.BytesIO(CLIP))
        await self.wait_for(running=1, waiting=0)
        self.come(io.BytesIO(CLIP), deadline_s=20)
        await self.wait_for(running=1, waiting=1)
        self._scheduler.learn(100_000, 1)

    async def leave(self) -> None:
        """Hang up, all of them."""
        for task in self._inside:
            task.cancel()
        if self._inside:
            await asyncio.wait(self._inside)


@asynccontextmanager
async def _crowd(limits: TranscriberLimits = LIMITS) -> AsyncIterator[Crowd]:
    release = threading.Event()

    def hold(_waveforms: Sequence[Waveform]) -> None:
        release.wait(10)

    recognizer = FakeRecognizer(before=hold)
    governor = Governor(recognizer.meter, cap=None, returns="always")
    governor.settle(20)
    queue = QueueLimits(audio_s=1000, batch_s=60)
    async with (
        asyncio.timeout(10),
        Executor() as executor,
        Scheduler(executor, recognizer, governor, queue, lambda _: None) as scheduler,
        Transcriber(scheduler, VOCABULARY, "en", limits) as transcriber,
    ):
        crowd = Crowd(transcriber, scheduler)
        try:
            yield crowd
        finally:
            await crowd.leave()
            release.set()


class Slow(io.BytesIO):
    """A file whose reading stands still until it is released."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.begun, self.release, self.reads = threading.Event(), threading.Event(), 0

    def read(self, nbytes: int | None = -1) -> bytes:
        """Count, and wait."""
        self.reads += 1
        self.begun.set()
        self.release.wait(10)
        return super().read(nbytes)


async def test_who_would_find_no_place_need_not_send_a_file() -> None:
    """As many are inside as may be, whatever the model has to do."""
    async with _crowd(replace(LIMITS, requests=1)) as crowd:
        crowd.transcriber.refuse_late(math.inf)
        crowd.come(io.BytesIO(CLIP))
        await crowd.wait_for(running=1, waiting=0)
        with pytest.raises(QueueFull, match="1 requests"):
            crowd.transcriber.refuse_late(math.inf)


@pytest.mark.parametrize(
    "limit_s, client_s, refused",
    [(30, math.inf, True), (30, 1e9, True), (1e9, 30, True), (1e9, 1e9, False), (1e9, math.inf, False)],
)
async def test_who_would_be_answered_too_late_need_not_send_a_file(
    limit_s: float, client_s: float, *, refused: bool
) -> None:
    """By the client's deadline or by the seat's, whichever is sooner."""
    async with _crowd(replace(LIMITS, deadline_s=limit_s)) as crowd:
        await crowd.fill()
        if refused:
            with pytest.raises(QueueFull):
                crowd.transcriber.refuse_late(client_s)
        else:
            crowd.transcriber.refuse_late(client_s)


async def test_who_would_be_answered_too_late_does_not_wait() -> None:
    """Not even until its deadline: behind the upload, too, it is refused at once."""
    async with _crowd() as crowd:
        await crowd.fill()
        with pytest.raises(QueueFull):
            await crowd.come(io.BytesIO(CLIP))


async def test_who_goes_while_another_file_is_decoded_waits_for_nobody() -> None:
    """A file that no decoder has begun with is let go at once, and is never read."""
    async with _crowd() as crowd:
        slow, waiting = Slow(CLIP), Slow(CLIP)
        decoded = crowd.come(slow)
        await asyncio.to_thread(slow.begun.wait, 5)
        left = crowd.come(waiting)
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait([left])
        assert not decoded.done()
        slow.release.set()
        await crowd.wait_for(running=1, waiting=0)
        assert waiting.reads == 0


async def test_who_goes_while_a_file_is_decoded_ends_that() -> None:
    """No more of it is read: the decoder is for those who wait."""
    async with _crowd() as crowd:
        slow = Slow(CLIP)
        left = crowd.come(slow)
        await asyncio.to_thread(slow.begun.wait, 5)
        left.cancel()
        await asyncio.sleep(0)
        slow.release.set()
        await asyncio.wait([left])
        assert (left.cancelled(), slow.reads) == (True, 1)
