"""Put the windows of all requests into batches for the one GPU thread. Knows waveforms and their order; no words.

The policy is a pure function, `choose_batch`; the class around it is a queue and a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from seat.errors import QueueFull, RecognitionFailed, SeatError, ShuttingDown
from seat.executor import Executor
from seat.recognizer import SAMPLE_RATE, Recognition, Waveform

PADDING_LIMIT = 2.0
"""The longest window of a batch is at most this many times the shortest: padding is computed like speech."""

LONGEST_RETRY_AFTER_S = 120
"""The openai SDK does not retry after a longer time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """How much may wait, and how much may run at once."""

    audio_s: float
    """Seconds of audio that may wait; one request always may."""
    batch_s: float
    """Seconds of audio in one batch, padding included; one window always fits."""


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


@dataclass(slots=True, eq=False)
class Entry:
    """One window that waits."""

    waveform: Waveform
    turn: int
    """The window's place within its request: others' first windows go before anyone's second."""
    arrival: int
    """The request's place among all requests."""
    future: asyncio.Future[tuple[Recognition, int, float, float]]
    """Resolves to the recognition, the batch's size, and when the batch began and ended."""


def choose_batch(waiting: Sequence[Entry], batch_samples: int) -> list[Entry]:
    """Choose what runs next.

    The most urgent window goes: the earliest turn, then the earliest arrival, so that a short request waits for one
    batch at most while a long file is in work, and long files take turns. Others of similar length fill the batch in
    the same order.

    Args:
        waiting: At least one entry, in any order.
        batch_samples: Samples in one batch, padding included.
    """
    first, *others = sorted(waiting, key=lambda entry: (entry.turn, entry.arrival))
    batch = [first]
    longest = shortest = len(first.waveform)
    for entry in others:
        length = len(entry.waveform)
        longer, shorter = max(longest, length), min(shortest, length)
        if longer <= PADDING_LIMIT * shorter and longer * (len(batch) + 1) <= batch_samples:
            batch.append(entry)
            longest, shortest = longer, shorter
    return batch


class Scheduler:
    """A bounded queue of windows in front of the GPU thread; an async context manager."""

    def __init__(
        self,
        executor: Executor,
        recognize: Callable[[Sequence[Waveform]], list[Recognition]],
        limits: QueueLimits,
    ) -> None:
        self._executor = executor
        self._recognize = recognize
        self._limits = limits
        self._waiting: list[Entry] = []
        self._running: list[Entry] = []
        self._arrived = asyncio.Event()
        self._arrivals = 0
        self._batches = 0
        self._seconds_per_audio_s = 0.05  # of the processor, as a first guess; corrected by every batch
        self._closing = False
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
        for entry in self._waiting + self._running:
            _settle(entry, ShuttingDown())
        self._waiting, self._running = [], []

    def statistics(self) -> SchedulerStatistics:
        """What waits right now."""
        return SchedulerStatistics(
            requests=len({entry.arrival for entry in self._waiting}),
            windows=len(self._waiting),
            audio_s=sum(len(entry.waveform) for entry in self._waiting) / SAMPLE_RATE,
            batches=self._batches,
        )

    async def recognize(
        self, waveforms: Sequence[Waveform], on_recognized: Callable[[int], None] = lambda _number: None
    ) -> Heard:
        """Recognize the windows of one request.

        Args:
            waveforms: At least one.
            on_recognized: Called on the event loop with the number of each window, from 0, once it is recognized.

        Raises:
            QueueFull: As much waits as may wait.
            ShuttingDown: The seat is about to stop.
            RecognitionFailed: The model raised on one of them, also when it ran alone.
        """
        self._admit(sum(map(len, waveforms)) / SAMPLE_RATE)
        submitted_at = time.monotonic()
        loop = asyncio.get_running_loop()
        entries = [
            Entry(waveform=waveform, turn=turn, arrival=self._arrivals, future=loop.create_future())
            for turn, waveform in enumerate(waveforms)
        ]
        for entry in entries:
            entry.future.add_done_callback(partial(_tell, entry.turn, on_recognized))
        self._arrivals += 1
        self._waiting += entries
        self._arrived.set()
        try:
            results = await asyncio.gather(*(entry.future for entry in entries))
        finally:
            for entry in entries:
                entry.future.cancel()
            self._waiting = [entry for entry in self._waiting if not entry.future.done()]
        recognitions, sizes, begins, ends = zip(*results, strict=True)
        return Heard(
            recognitions=recognitions,
            queue_s=min(begins) - submitted_at,
            inference_s=max(ends) - min(begins),
            batch_sizes=sizes,
        )

    def _admit(self, audio_s: float) -> None:
        if self._closing:
            raise ShuttingDown
        now = self.statistics()
        if now.requests and now.audio_s + audio_s > self._limits.audio_s:
            retry_after_s = min(LONGEST_RETRY_AFTER_S, max(1, math.ceil(now.audio_s * self._seconds_per_audio_s)))
            raise QueueFull(waiting=f"{now.audio_s:.0f} seconds of audio", retry_after_s=retry_after_s)

    async def _serve(self) -> None:
        while True:
            await self._arrived.wait()
            if not self._waiting:
                self._arrived.clear()
                continue
            self._running = choose_batch(self._waiting, round(self._limits.batch_s * SAMPLE_RATE))
            chosen = set(map(id, self._running))
            self._waiting = [entry for entry in self._waiting if id(entry) not in chosen]
            await self._run(self._running)
            self._running = []

    async def _run(self, batch: list[Entry]) -> None:
        """Run a batch; where it fails, run its members singly, so that only the faulty ones fail."""
        began_at = time.monotonic()
        try:
            recognitions = await self._executor.run(lambda: self._checked([entry.waveform for entry in batch]))
        except Exception as fault:  # noqa: BLE001  whatever the model raises belongs to the requests that were in the batch
            if len(batch) > 1:
                for entry in batch:
                    if not entry.future.done():
                        await self._run([entry])
            else:
                _settle(batch[0], _failure(fault))
            return
        ended_at = time.monotonic()
        self._batches += 1
        audio_s = sum(len(entry.waveform) for entry in batch) / SAMPLE_RATE
        self._seconds_per_audio_s += 0.1 * ((ended_at - began_at) / audio_s - self._seconds_per_audio_s)
        for entry, recognition in zip(batch, recognitions, strict=True):
            if not entry.future.done():
                entry.future.set_result((recognition, len(batch), began_at, ended_at))

    def _checked(self, waveforms: list[Waveform]) -> list[Recognition]:
        recognitions = self._recognize(waveforms)
        if len(recognitions) != len(waveforms):
            message = f"{len(recognitions)} recognitions for {len(waveforms)} waveforms"
            raise RuntimeError(message)
        return recognitions


def _tell(number: int, on_recognized: Callable[[int], None], future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        on_recognized(number)


def _failure(fault: Exception) -> SeatError:
    failure = RecognitionFailed()
    failure.__cause__ = fault
    return failure


def _settle(entry: Entry, fault: SeatError) -> None:
    if not entry.future.done():
        entry.future.set_exception(fault)
