"""Put the windows of all requests into batches for the one GPU thread. Knows waveforms and their order; no words.

The policy is in `seat.batches`; this is the queue and the loop around it.
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

from seat.batches import Entry, Ran, Ticket, choose_batch, smaller
from seat.errors import DeviceLost, MemoryLimit, QueueFull, RecognitionFailed, SeatError, ShuttingDown
from seat.executor import Executor
from seat.faults import is_fatal, is_shortage
from seat.memory import Governor
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Recognizer, Waveform
from seat.telemetry import batch_span, here, log, tell_footprint
from seat.weights import Weights

LONGEST_RETRY_AFTER_S = 120
"""The openai SDK does not retry after a longer time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """How much may wait, and how much may run at once."""

    audio_s: float
    """Seconds of audio that may wait; one request always may."""
    batch_s: float
    """Seconds of audio in one batch, padding included; one window always fits. Memory may allow less."""
    idle_s: float | None = None
    """Seconds without work after which the weights leave the device; None for never."""
    windows: int | None = None
    """Windows in one batch; None for as many as its seconds allow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerStatistics:
    """What waits."""

    requests: int
    """Requests with at least one window that has not begun."""
    windows: int
    """Windows that have not begun."""
    audio_s: float
    """Seconds of audio in them."""
    batches: int
    """Batches that have ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """What one request's windows gave, and what it took."""

    recognitions: tuple[Recognition, ...]
    """One per window, in the order they were submitted."""
    queue_s: float
    """Seconds until the first of its batches began."""
    inference_s: float
    """Seconds from then until the last ended."""
    batch_sizes: tuple[int, ...]
    """Windows in the batch of each window."""
    peak_nbytes: int
    """Bytes that the process took at most during one of its batches."""
    rest_nbytes: int
    """Bytes that the process took after the last of them."""


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
        self._limits = limits
        self._on_lost = on_lost
        self._waiting: list[Entry] = []
        self._running: list[Entry] = []
        self._arrived = asyncio.Event()
        self._arrivals = 0
        self._batches = 0
        self._seconds_per_audio_s = 0.05  # of the processor, as a first guess; corrected by every batch
        self._closing = self._lost = False
        self._short_led = False  # the last batch was led by a short request: a file's turn, where one waits
        self._loop: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.create_task(self._serve(), name="scheduler")
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

    def statistics(self) -> SchedulerStatistics:
        """What waits right now."""
        return SchedulerStatistics(
            requests=len({entry.ticket.arrival for entry in self._waiting}),
            windows=len(self._waiting),
            audio_s=sum(len(entry.waveform) for entry in self._waiting) / SAMPLE_RATE,
            batches=self._batches,
        )

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
        return _heard(await self._run_all(entries, on_recognized), submitted_at)

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
        for turn, chunk in enumerate(chunks):
            entry = _entry(chunk.waveform, turn, ticket, replace(chunk, carried=carried))
            results += await self._run_all([entry], on_recognized)
            carried = entry.carried
        return _heard(results, submitted_at)

    async def _run_all(
        self, entries: list[Entry], on_recognized: Callable[[int], None]
    ) -> list[tuple[Recognition, Ran]]:
        """Put windows into the queue and wait for all of them; none stays behind where that fails or is cancelled."""
        for entry in entries:
            entry.future.add_done_callback(partial(_tell, entry.turn, on_recognized))
        self._waiting += entries
        self._arrived.set()
        try:
            return await asyncio.gather(*(entry.future for entry in entries))
        finally:
            for entry in entries:
                entry.future.cancel()
            self._waiting = [entry for entry in self._waiting if not entry.future.done()]

    def _admit(self, waveforms: Sequence[Waveform], deadline_at: float) -> Ticket:
        """Let a request in, and give it its place in the queue."""
        if self._lost:
            raise DeviceLost
        if self._closing:
            raise ShuttingDown
        self._governor.admit(max(map(len, waveforms)) / SAMPLE_RATE)
        served = min((entry.ticket.served for entry in self._waiting if entry.ticket.long), default=0)
        ticket = Ticket(arrival=self._arrivals + 1, long=len(waveforms) > 1, deadline_at=deadline_at, served=served)
        now = self.statistics()
        late_s = time.monotonic() + self._predicted_wait_s(ticket) - deadline_at
        full = now.audio_s + sum(map(len, waveforms)) / SAMPLE_RATE > self._limits.audio_s
        if now.requests and (full or late_s > 0):
            passes_s = max(late_s, now.audio_s * self._seconds_per_audio_s if full else 0.0)
            retry_after_s = min(LONGEST_RETRY_AFTER_S, max(1, math.ceil(passes_s)))
            raise QueueFull(waiting=f"{now.audio_s:.0f} seconds of audio", retry_after_s=retry_after_s)
        self._arrivals += 1
        return ticket

    def _predicted_wait_s(self, ticket: Ticket) -> float:
        """Seconds until a request would begin to run: a file waits for all, a clip for clips and every other batch."""
        ahead = [entry for entry in self._waiting if ticket.long or not entry.ticket.long]
        batches = 1 if ticket.long or len(ahead) == len(self._waiting) else 2
        return batches * self._seconds_per_audio_s * sum(len(entry.waveform) for entry in ahead) / SAMPLE_RATE

    async def _serve(self) -> None:
        while not self._lost:
            await self._arrival()
            if not self._waiting:
                self._arrived.clear()
                continue
            if self.weights.released and not await self._restore():
                continue
            self._take_batch()
            await self._run(self._running)
            self._running = []

    def _take_batch(self) -> None:
        """Move what runs next out of the queue; not in the loop above, whose frame would keep it for good."""
        self._running = choose_batch(self._waiting, self._fits, self._limits.windows, long_leads=self._short_led)
        self._short_led = not self._running[0].ticket.long
        for entry in self._running:
            entry.ticket.served += 1
        chosen = set(map(id, self._running))
        self._waiting = [entry for entry in self._waiting if id(entry) not in chosen]

    def _fits(self, padded_samples: int) -> bool:
        padded_s = padded_samples / SAMPLE_RATE
        return padded_s <= self._limits.batch_s and self._governor.fits(padded_s)

    async def _arrival(self) -> None:
        """Wait for a window; where none comes for long enough, take the weights off the device and go on waiting."""
        try:
            async with asyncio.timeout(None if self.weights.released else self._limits.idle_s):
                await self._arrived.wait()
        except TimeoutError:
            await self.weights.release()

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
        self._seconds_per_audio_s += 0.1 * ((ended_at - began_at) / audio_s - self._seconds_per_audio_s)
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

    def _lose(self, fault: Exception) -> None:
        """Answer everybody, and say that this process is of no use any more."""
        self._lost = True
        self._settle_all(DeviceLost, fault)
        self._on_lost(fault)

    def _settle_all(self, kind: Callable[[], SeatError], cause: Exception | None = None) -> None:
        for entry in self._waiting + self._running:
            _settle(entry, _because(cause, kind()))
        self._waiting, self._running = [], []


def _entry(waveform: Waveform, turn: int, ticket: Ticket, chunk: Chunk | None = None) -> Entry:
    future = asyncio.get_running_loop().create_future()
    return Entry(waveform=waveform, turn=turn, ticket=ticket, origin=here(), future=future, chunk=chunk)


def _heard(results: Sequence[tuple[Recognition, Ran]], submitted_at: float) -> Heard:
    batches = [ran for _, ran in results]
    began_at, last = min(ran.began_at for ran in batches), max(batches, key=lambda ran: ran.ended_at)
    return Heard(
        recognitions=tuple(recognition for recognition, _ in results),
        queue_s=began_at - submitted_at,
        inference_s=last.ended_at - began_at,
        batch_sizes=tuple(ran.size for ran in batches),
        peak_nbytes=max(ran.footprint.peak for ran in batches),
        rest_nbytes=last.footprint.rest_after,
    )


def _tell(number: int, on_recognized: Callable[[int], None], future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        on_recognized(number)


def _because(cause: Exception | None, fault: SeatError) -> SeatError:
    fault.__cause__ = cause
    return fault


def _settle(entry: Entry, fault: SeatError) -> None:
    if not entry.future.done():
        entry.future.set_exception(fault)
