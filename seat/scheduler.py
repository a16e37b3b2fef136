"""Put the windows of all requests into batches for the one GPU thread. Knows waveforms and their order; no words.

Who may wait and who runs next is said by `seat.queueing`, how a batch runs by `seat.runner`; this is the loop, and what
becomes of faults. While a batch runs, the one that would run next stands behind it, padded. It is chosen anew whenever
somebody comes or goes, so a clip waits for the batch that runs, and for another only where it is that one's turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from seat.batches import Entry, Heard, Kind, Ran, Ticket, smaller
from seat.errors import DeviceLost, MemoryLimit, RecognitionFailed, SeatError, ShuttingDown
from seat.executor import Executor, Job
from seat.faults import is_fatal, is_shortage
from seat.memory import Governor
from seat.queueing import Queue, QueueLimits, QueueStatistics
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Recognizer, Waveform
from seat.runner import Outcome, Runner
from seat.telemetry import here, log
from seat.weights import Weights

Recognized = Callable[[int, Recognition], None]
"""Called on the event loop with the number of a window, from 0, and what was heard in it."""


def _unheard(_number: int, _recognition: Recognition) -> None:
    """A `Recognized` that nobody looks at."""


def _nothing(_number: int) -> None:
    """Nothing to try in place of a window in which nothing was heard."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerStatistics:
    """What waits, and what has been done."""

    queue: QueueStatistics
    """What waits."""
    running: int
    """Windows that have left the queue and have no answer yet."""
    batches: int
    """Batches that have ended well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    """A batch in the GPU thread's line."""

    batch: list[Entry]
    tries: int
    """How often it, or what it is a part of, has failed."""
    job: Job[Outcome]


class Scheduler:
    """A bounded queue of windows in front of the GPU thread; an async context manager."""

    def __init__(  # noqa: PLR0913  what it works with, each named
        self,
        executor: Executor,
        recognizer: Recognizer,
        governor: Governor,
        limits: QueueLimits,
        on_lost: Callable[[BaseException], None],
        *,
        idle_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin empty.

        Args:
            executor: The one thread.
            recognizer: Used on that thread only.
            governor: Warmed up and settled.
            limits: How much may wait and run.
            on_lost: Called once, after everybody is answered, with a fault after which the device computes no more.
            idle_s: Seconds without work after which the weights leave the device; None for never.
            clock: What deadlines are told by, in seconds.
        """
        self._governor = governor
        self._runner = Runner(executor, recognizer, governor, clock)
        self.weights = Weights(executor, recognizer, governor)
        """Where the recognizer's weights are."""
        self._idle_s = idle_s
        self._clock = clock
        self._on_lost = on_lost
        self._queue = Queue(limits, governor.fits, clock)
        self._again: deque[tuple[list[Entry], int]] = deque()
        """Parts of batches that failed, and how often; they go before the queue."""
        self._taken: list[Entry] = []
        """Windows that have left the queue and have no answer yet."""
        self._changed = asyncio.Event()
        """Somebody came or went, or a batch ended: what runs next may be another."""
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
            await asyncio.wait([self._loop])  # what it raised has been told
        self._runner.close()
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
        return SchedulerStatistics(queue=self._queue.statistics(), running=len(self._taken), batches=self._batches)

    async def recognize(
        self,
        waveforms: Sequence[Waveform],
        on_recognized: Recognized = _unheard,
        *,
        deadline_at: float = math.inf,
        instead: Callable[[int], Waveform | None] = _nothing,
    ) -> Heard:
        """Recognize the windows of one request, side by side.

        Args:
            waveforms: At least one.
            on_recognized: Told of each window as soon as it is recognized, in any order.
            deadline_at: When the answer is too late, on the monotonic clock.
            instead: Called in another thread with the number of a window in which nothing was heard; gives what to try
                once in its place, or None. What cannot be tried stays as it was heard.

        Raises:
            ExceedsMemory: One of them could never run under the memory cap.
            QueueFull: As much waits as may wait, or so much that the answer would come too late.
            MemoryLimit: There is not enough memory for one of them now.
            DeviceLost: The device computes no more.
            ShuttingDown: The seat is about to stop.
            RecognitionFailed: The model raised on one of them, also when it ran alone.
        """
        ticket, submitted_at = self._admit(waveforms, deadline_at), self._clock()
        second: list[asyncio.Task[tuple[int, tuple[Recognition, Ran] | None]]] = []

        def heard(turn: int, recognition: Recognition) -> None:
            if recognition.tokens or instead is _nothing:
                on_recognized(turn, recognition)
            else:
                second.append(asyncio.create_task(once_more(turn, recognition)))

        async def once_more(turn: int, recognition: Recognition) -> tuple[int, tuple[Recognition, Ran] | None]:
            other, result = await asyncio.to_thread(instead, turn), None
            if other is not None:
                with contextlib.suppress(MemoryLimit, RecognitionFailed):
                    (result,) = await self._run_all([_entry(other, turn, ticket)], _unheard)
            on_recognized(turn, result[0] if result else recognition)
            return turn, result

        try:
            results = await self._run_all(
                [_entry(waveform, turn, ticket) for turn, waveform in enumerate(waveforms)], heard
            )
            better = {turn: result for turn, result in await asyncio.gather(*second) if result}
        finally:
            for task in second:
                task.cancel()
        final = [(better.get(turn, result)[0], result[1]) for turn, result in enumerate(results)]
        return Heard.of(final, submitted_at, [ran for _, ran in better.values()])

    async def carry(
        self,
        chunks: Sequence[Chunk],
        on_recognized: Recognized = _unheard,
        *,
        deadline_at: float = math.inf,
        instead: Callable[[int], Chunk | None] = _nothing,
    ) -> Heard:
        """Recognize the windows of one request one after the other, the decoder going on from core to core.

        Args:
            chunks: At least one; what each carries is replaced by what the one before it left.
            on_recognized: As for `recognize`, whose errors this raises too.
            deadline_at: As for `recognize`.
            instead: As for `recognize`, but what it gives is a chunk.
        """
        ticket, submitted_at = self._admit([chunk.waveform for chunk in chunks], deadline_at), self._clock()
        results: list[tuple[Recognition, Ran]] = []
        carried: object | None = None
        with self._queue.reserved(ticket, [chunk.waveform for chunk in chunks]) as comes:
            for turn, chunk in enumerate(chunks):
                comes(chunk.waveform)
                result, after = await self._proceed(chunk, turn, ticket, carried)
                other = None if result[0].tokens else await asyncio.to_thread(instead, turn)
                if other is not None:
                    with contextlib.suppress(MemoryLimit, RecognitionFailed):
                        result, after = await self._proceed(other, turn, ticket, carried)
                on_recognized(turn, result[0])
                results.append(result)
                carried = after
        return Heard.of(results, submitted_at)

    async def proceed(self, chunk: Chunk, deadline_at: float) -> tuple[Recognition, object, Ran]:
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
        self._check_open(len(chunk.waveform))
        entry = _entry(chunk.waveform, 0, self._queue.place(Kind.LIVE, deadline_at), chunk)
        ((recognition, ran),) = await self._run_all([entry], _unheard)
        return recognition, entry.carried, ran

    async def _proceed(
        self, chunk: Chunk, turn: int, ticket: Ticket, carried: object | None
    ) -> tuple[tuple[Recognition, Ran], object | None]:
        """Recognize a chunk from what the decoder knew before it; what it knows behind it comes second."""
        entry = _entry(chunk.waveform, turn, ticket, replace(chunk, carried=carried))
        (result,) = await self._run_all([entry], _unheard)
        return result, entry.carried

    async def _run_all(self, entries: list[Entry], on_recognized: Recognized) -> list[tuple[Recognition, Ran]]:
        """Put windows into the queue and wait for all of them; none stays behind where that fails or is cancelled."""
        self._check_alive()
        for entry in entries:
            entry.future.add_done_callback(partial(_tell, entry.turn, on_recognized))
        self._queue.add(entries)
        self._changed.set()
        try:
            return await asyncio.gather(*(entry.future for entry in entries))
        finally:
            for entry in entries:
                entry.future.cancel()
            self._queue.forget_done()
            self._changed.set()

    def refuse_late(self, deadline_at: float) -> None:
        """Say before anything is read that an answer would come too late, even were it the shortest clip.

        Raises:
            Unavailable: It would, or nothing is let in at all.
        """
        self._check_open(0)
        self._queue.refuse([], deadline_at)

    def _admit(self, waveforms: Sequence[Waveform], deadline_at: float) -> Ticket:
        self._check_open(max(map(len, waveforms)))
        return self._queue.admit(waveforms, deadline_at)

    def _check_open(self, longest: int) -> None:
        self._check_alive()
        self._governor.admit(longest / SAMPLE_RATE)

    def _check_alive(self) -> None:
        """See that somebody serves the queue."""
        if self._lost:
            raise DeviceLost
        if self._closing:
            raise ShuttingDown

    async def _serve(self) -> None:
        running: _Attempt | None = None
        while not self._lost:
            if running is None:
                running = await self._first()
                continue
            self._take(running)
            following = await self._stand_by(running)
            self._again.extend(self._finish(running))
            running = following

    async def _first(self) -> _Attempt | None:
        """Wait until there is something to run, and run it."""
        await self._arrival()
        if self._chosen() is None or (self.weights.released and not await self._restore()):
            return None
        chosen = self._chosen()  # who comes while the weights come back is in it
        return chosen and self._attempt(*chosen)

    async def _stand_by(self, running: _Attempt) -> _Attempt | None:
        """Keep what would run next in line behind what runs, padded, until that ends."""
        following: _Attempt | None = None
        while not running.job.outcome.done():
            self._changed.clear()
            chosen = self._chosen()
            if following is None or chosen is None or chosen[0] != following.batch:
                if following is not None and not following.job.withdraw():
                    break  # it has begun: the other has ended, and that will be told in a moment
                following = chosen and self._attempt(*chosen, await self._runner.pad(chosen[0]))
            await self._changed.wait()
        await asyncio.wait([running.job.outcome])
        return following

    def _chosen(self) -> tuple[list[Entry], int] | None:
        """What runs next, and how often it has failed: parts of a batch that failed first, then as the queue says."""
        while self._again:
            batch, tries = self._again[0]
            if not all(entry.future.done() for entry in batch):
                return batch, tries
            self._again.popleft()
        return (self._queue.choose(), 0) if self._queue else None

    def _attempt(self, batch: list[Entry], tries: int, padded: object | None = None) -> _Attempt:
        job = self._runner.submit(batch, padded)
        job.outcome.add_done_callback(lambda _: self._changed.set())
        return _Attempt(batch=batch, tries=tries, job=job)

    def _take(self, attempt: _Attempt) -> None:
        """Take what begins to run out of where it was chosen from."""
        if attempt.tries:  # where all its members have gone since it began, it is there no more
            self._again = deque(rest for rest in self._again if rest[0] is not attempt.batch)
        else:
            self._queue.take(attempt.batch)
            self._taken += attempt.batch

    def _finish(self, attempt: _Attempt) -> list[tuple[list[Entry], int]]:
        """Answer the members of a batch that has ended, and return what must run again, and how often it has failed."""
        parts: list[list[Entry]] = []
        try:
            outcome = attempt.job.outcome.result()
        except Exception as fault:  # noqa: BLE001  whatever the model raises belongs to the requests in the batch
            parts = self._failed(attempt.batch, attempt.tries, fault)
        else:
            self._answer(outcome)
        self._taken = [entry for entry in self._taken if not entry.future.done()]
        return [(part, attempt.tries + 1) for part in parts]

    def _answer(self, outcome: Outcome) -> None:
        if outcome.ran is None:
            return
        self._batches += 1
        self._queue.learn(outcome.ran.ended_at - outcome.ran.began_at, outcome.audio_s)
        for entry, recognition in zip(outcome.entries, outcome.recognitions, strict=True):
            if not entry.future.done():
                entry.future.set_result((recognition, outcome.ran))

    async def _arrival(self) -> None:
        """Wait for a window; where none comes for long enough, take the weights off the device and go on waiting."""
        try:
            async with asyncio.timeout(None if self.weights.released else self._idle_s):
                while self._chosen() is None:
                    self._changed.clear()
                    await self._changed.wait()
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

    def _lose(self, fault: BaseException) -> None:
        """Answer everybody, and say that this process is of no use any more."""
        self._lost = True
        self._settle_all(DeviceLost, fault)
        self._on_lost(fault)

    def _settle_all(self, kind: Callable[[], SeatError], cause: BaseException | None = None) -> None:
        for entry in self._queue.take_all() + self._taken:
            _settle(entry, _because(cause, kind()))


def _entry(waveform: Waveform, turn: int, ticket: Ticket, chunk: Chunk | None = None) -> Entry:
    future = asyncio.get_running_loop().create_future()
    return Entry(waveform=waveform, turn=turn, ticket=ticket, origin=here(), future=future, chunk=chunk)


def _tell(number: int, on_recognized: Recognized, future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        recognition, _ = future.result()
        on_recognized(number, recognition)


def _because(cause: BaseException | None, fault: SeatError) -> SeatError:
    fault.__cause__ = cause
    return fault


def _settle(entry: Entry, fault: SeatError) -> None:
    if not entry.future.done():
        entry.future.set_exception(fault)
