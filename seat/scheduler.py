"""Put the windows of all requests into batches for the one GPU thread. Knows waveforms and their order; no words.

Who may wait and who runs next is said by `seat.queueing`; this is the loop, and what becomes of faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from seat.batches import Entry, Heard, Ran, Ticket, smaller
from seat.errors import DeviceLost, MemoryLimit, RecognitionFailed, SeatError, ShuttingDown
from seat.executor import Executor
from seat.faults import is_fatal, is_shortage
from seat.memory import Governor
from seat.queueing import Queue, QueueLimits, QueueStatistics
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Recognizer, Waveform
from seat.telemetry import batch_span, here, log, tell_footprint
from seat.weights import Weights


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerStatistics:
    """What waits, and what has been done."""

    queue: QueueStatistics
    """What waits."""
    batches: int
    """Batches that have ended."""


class Scheduler:
    """A bounded queue of windows in front of the GPU thread; an async context manager."""

    def __init__(
        self,
        executor: Executor,
        recognizer: Recognizer,
        governor: Governor,
        limits: QueueLimits,
        on_lost: Callable[[BaseException], None],
    ) -> None:
        """Begin empty.

        Args:
            executor: The one thread.
            recognizer: Used on that thread only.
            governor: Warmed up and settled.
            limits: How much may wait and run.
            on_lost: Called once, after everybody is answered, with a fault after which the device computes no more.
        """
        self._executor = executor
        self._recognizer = recognizer
        self._governor = governor
        self.weights = Weights(executor, recognizer, governor)
        """Where the recognizer's weights are."""
        self._idle_s = limits.idle_s
        self._on_lost = on_lost
        self._queue = Queue(limits, governor.fits)
        self._running: list[Entry] = []
        self._arrived = asyncio.Event()
        self._batches = 0
        self._closing = self._lost = False
        self._loop: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.create_task(self._serve(), name="scheduler")
        self._loop.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop
        self._settle_all(ShuttingDown)

    def _ended(self, loop: asyncio.Task[None]) -> None:
        """Tell that nothing runs any more, where the loop itself raised: a bug of ours must not be silent."""
        if not loop.cancelled() and (fault := loop.exception()) is not None:
            self._lose(fault)

    def learn(self, seconds: float, audio_s: float) -> None:
        """Take in how long so many seconds of audio took before anybody asked, for predictions."""
        self._queue.learn(seconds, audio_s)

    def statistics(self) -> SchedulerStatistics:
        """What waits right now, and what has been done."""
        return SchedulerStatistics(queue=self._queue.statistics(), batches=self._batches)

    async def recognize(
        self,
        waveforms: Sequence[Waveform],
        on_recognized: Callable[[int], None] = lambda _number: None,
        *,
        deadline_at: float = math.inf,
    ) -> Heard:
        """Recognize the windows of one request, side by side.

        Args:
            waveforms: At least one.
            on_recognized: Called on the event loop with the number of each window, from 0, once it is recognized.
            deadline_at: When the answer is too late, on the monotonic clock.

        Raises:
            ExceedsMemory: One of them could never run under the memory cap.
            QueueFull: As much waits as may wait, or so much that the answer would come too late.
            MemoryLimit: There is not enough memory for one of them now.
            DeviceLost: The device computes no more.
            ShuttingDown: The seat is about to stop.
            RecognitionFailed: The model raised on one of them, also when it ran alone.
        """
        ticket, submitted_at = self._admit(waveforms, deadline_at), time.monotonic()
        entries = [_entry(waveform, turn, ticket) for turn, waveform in enumerate(waveforms)]
        return Heard.of(await self._run_all(entries, on_recognized), submitted_at)

    async def carry(
        self,
        chunks: Sequence[Chunk],
        on_recognized: Callable[[int], None] = lambda _number: None,
        *,
        deadline_at: float = math.inf,
    ) -> Heard:
        """Recognize the windows of one request one after the other, the decoder going on from core to core.

        Args:
            chunks: At least one; what each carries is replaced by what the one before it left.
            on_recognized: As for `recognize`, whose errors this raises too.
            deadline_at: As for `recognize`.
        """
        ticket, submitted_at = self._admit([chunk.waveform for chunk in chunks], deadline_at), time.monotonic()
        results: list[tuple[Recognition, Ran]] = []
        carried: object | None = None
        with self._queue.reserved([chunk.waveform for chunk in chunks]) as comes:
            for turn, chunk in enumerate(chunks):
                entry = _entry(chunk.waveform, turn, ticket, replace(chunk, carried=carried))
                comes(chunk.waveform)
                results += await self._run_all([entry], on_recognized)
                carried = entry.carried
        return Heard.of(results, submitted_at)

    async def proceed(self, chunk: Chunk, *, deadline_at: float) -> tuple[Recognition, object, Ran]:
        """Recognize the next chunk of a stream that never ends.

        It is urgent, and is let in however much waits: a stream has one chunk in the queue at most, and the streams are
        bounded where they are opened.

        Args:
            chunk: With what the one before it left.
            deadline_at: When its words are late, on the monotonic clock: it goes before all that has more time.

        Returns:
            What was heard, what the decoder carries on, and how the batch went.

        Raises:
            SeatError: As `recognize`, but for QueueFull.
        """
        self._check_open(chunk.waveform)
        entry = _entry(chunk.waveform, 0, self._queue.place(long=False, deadline_at=deadline_at), chunk)
        ((recognition, ran),) = await self._run_all([entry], lambda _number: None)
        return recognition, entry.carried, ran

    async def _run_all(
        self, entries: list[Entry], on_recognized: Callable[[int], None]
    ) -> list[tuple[Recognition, Ran]]:
        """Put windows into the queue and wait for all of them; none stays behind where that fails or is cancelled."""
        for entry in entries:
            entry.future.add_done_callback(partial(_tell, entry.turn, on_recognized))
        self._queue.add(entries)
        self._arrived.set()
        try:
            return await asyncio.gather(*(entry.future for entry in entries))
        finally:
            for entry in entries:
                entry.future.cancel()
            self._queue.forget_done()

    def _admit(self, waveforms: Sequence[Waveform], deadline_at: float) -> Ticket:
        self._check_open(max(waveforms, key=len))
        return self._queue.admit(waveforms, deadline_at)

    def _check_open(self, longest: Waveform) -> None:
        if self._lost:
            raise DeviceLost
        if self._closing:
            raise ShuttingDown
        self._governor.admit(len(longest) / SAMPLE_RATE)

    async def _serve(self) -> None:
        while not self._lost:
            await self._arrival()
            if not self._queue:
                self._arrived.clear()
                continue
            if self.weights.released and not await self._restore():
                continue
            self._running = self._queue.take()
            await self._run(self._running)
            self._running = []

    async def _arrival(self) -> None:
        """Wait for a window; where none comes for long enough, take the weights off the device and go on waiting."""
        try:
            async with asyncio.timeout(None if self.weights.released else self._idle_s):
                await self._arrived.wait()
        except TimeoutError:
            try:
                await self.weights.release()
            except Exception as fault:  # noqa: BLE001  only what is fatal comes here
                self._lose(fault)

    async def _restore(self) -> bool:
        """Bring the weights back; where that fails, who waits hears of it, and the next request tries again."""
        try:
            await self.weights.restore()
        except Exception as fault:  # noqa: BLE001  whatever it is, it belongs to the requests that needed the weights
            if is_fatal(fault):
                self._lose(fault)
            else:
                self._settle_all(MemoryLimit if is_shortage(fault) else RecognitionFailed, fault)
            return False
        return True

    async def _run(self, batch: list[Entry], tries: int = 0) -> None:
        """Run a batch; where it fails, run parts of it, so that only those fail that cannot run alone."""
        batch = [entry for entry in batch if not entry.future.done()]
        if not batch or self._lost:
            return
        try:
            recognitions, ran = await self._computed(batch)
        except Exception as fault:  # noqa: BLE001  whatever the model raises belongs to the requests in the batch
            parts = self._failed(batch, tries, fault)
        else:
            parts = []
            for entry, recognition in zip(batch, recognitions, strict=True):
                if not entry.future.done():
                    entry.future.set_result((recognition, ran))
        for part in parts:  # out here the fault is gone, and with it what it held
            await self._run(part, tries + 1)

    def _failed(self, batch: list[Entry], tries: int, fault: Exception) -> list[list[Entry]]:
        """Answer what a fault leaves no hope for, and return what to run again."""
        if is_fatal(fault):
            self._lose(fault)
            return []
        if isinstance(fault, MemoryLimit):
            parts = smaller(batch, tries)
            log.warning("memory_limit", windows=len(batch), tries=tries + 1, gives_up=not parts)
        else:
            parts = [[entry] for entry in batch] if len(batch) > 1 else []
        if not parts:
            _settle(batch[0], fault if isinstance(fault, MemoryLimit) else _because(fault, RecognitionFailed()))
        return parts

    async def _computed(self, batch: list[Entry]) -> tuple[list[Recognition], Ran]:
        waveforms = [entry.waveform for entry in batch]
        longest, audio_s = max(map(len, waveforms)), sum(map(len, waveforms)) / SAMPLE_RATE
        padded_s = longest * len(batch) / SAMPLE_RATE
        attention = self._recognizer.attention(longest)
        began_at = time.monotonic()
        origins = (entry.origin for entry in batch)
        with batch_span(origins, audio_s=audio_s, windows=len(batch), attention=attention) as span:
            try:
                recognitions = await self._executor.run(
                    partial(self._governor.run, padded_s, partial(self._checked, batch))
                )
            finally:
                footprint = self._governor.last
                tell_footprint(span, footprint)
        ended_at = time.monotonic()
        self._batches += 1
        self._queue.learn(ended_at - began_at, audio_s)
        return recognitions, Ran(size=len(batch), began_at=began_at, ended_at=ended_at, footprint=footprint)

    def _checked(self, batch: list[Entry]) -> list[Recognition]:
        """Run a batch on the GPU thread: as chunks where one of its members is one."""
        if any(entry.chunk for entry in batch):
            chunks = [entry.chunk or Chunk(waveform=entry.waveform, first=0, stop=None) for entry in batch]
            proceeded = self._recognizer.proceed(chunks)
            recognitions = [recognition for recognition, _ in proceeded]
            for entry, (_, carried) in zip(batch, proceeded, strict=False):
                entry.carried = carried
        else:
            recognitions = self._recognizer.recognize([entry.waveform for entry in batch])
        if len(recognitions) != len(batch):
            message = f"{len(recognitions)} recognitions for {len(batch)} waveforms"
            raise RuntimeError(message)
        return recognitions

    def _lose(self, fault: BaseException) -> None:
        """Answer everybody, and say that this process is of no use any more."""
        self._lost = True
        self._settle_all(DeviceLost, fault)
        self._on_lost(fault)

    def _settle_all(self, kind: Callable[[], SeatError], cause: BaseException | None = None) -> None:
        for entry in self._queue.take_all() + self._running:
            _settle(entry, _because(cause, kind()))
        self._running = []


def _entry(waveform: Waveform, turn: int, ticket: Ticket, chunk: Chunk | None = None) -> Entry:
    future = asyncio.get_running_loop().create_future()
    return Entry(waveform=waveform, turn=turn, ticket=ticket, origin=here(), future=future, chunk=chunk)


def _tell(number: int, on_recognized: Callable[[int], None], future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        on_recognized(number)


def _because(cause: BaseException | None, fault: SeatError) -> SeatError:
    fault.__cause__ = cause
    return fault


def _settle(entry: Entry, fault: SeatError) -> None:
    if not entry.future.done():
        entry.future.set_exception(fault)
