"""Windows of many requests on one thread."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import numpy as np
import pytest

from seat.batches import Heard
from seat.errors import DeviceLost, ExceedsMemory, MemoryLimit, QueueFull, RecognitionFailed, ShuttingDown
from seat.executor import Executor, Job
from seat.memory import Governor
from seat.meter import MIB
from seat.queueing import QueueLimits
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Waveform
from seat.scheduler import Scheduler
from tests.fakes import FakeMeter, FakeRecognizer, Hunger, hear, speech

LIMITS = QueueLimits(audio_s=100, batch_s=30)

LONGEST_S = 16
"""Seconds of the longest window that a governor here was warmed up with."""


@asynccontextmanager
async def _scheduler(recognizer: FakeRecognizer, limits: QueueLimits = LIMITS, **how: Any) -> AsyncIterator[Scheduler]:
    async with Executor() as executor, _over(executor, recognizer, limits, **how) as scheduler:
        yield scheduler


def _over(  # noqa: PLR0913  what a test may choose, each named
    executor: Executor,
    recognizer: FakeRecognizer,
    limits: QueueLimits = LIMITS,
    *,
    cap_mib: int | None = None,
    on_lost: Callable[[BaseException], None] = lambda _fault: None,
    idle_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Scheduler:
    governor = Governor(recognizer.meter, cap=None if cap_mib is None else cap_mib * MIB, returns="always")
    governor.settle(LONGEST_S)
    return Scheduler(executor, recognizer, governor, limits, on_lost, idle_s=idle_s, clock=clock)


def _gate() -> tuple[FakeRecognizer, threading.Event, threading.Event]:
    """A recognizer that tells when its first batch has begun and then waits to be released."""
    begun, release = threading.Event(), threading.Event()

    def wait(_waveforms: Sequence[Waveform]) -> None:
        begun.set()
        release.wait(10)

    return FakeRecognizer(before=wait), begun, release


async def test_each_request_gets_its_own_words() -> None:
    """Twenty at once, of distinct lengths: every answer is what it would be alone."""
    recognizer = FakeRecognizer()
    clips = [speech([number % 10] * (number + 1)) for number in range(20)]
    async with _scheduler(recognizer, QueueLimits(audio_s=1000, batch_s=100)) as scheduler:
        answers = await asyncio.gather(*(scheduler.recognize([clip]) for clip in clips))
    assert [answer.recognitions for answer in answers] == [(hear(clip),) for clip in clips]
    assert (len(recognizer.threads), recognizer.most_inside) == (1, 1)
    assert max(map(len, recognizer.batches)) > 1


async def test_windows_come_back_in_the_order_they_were_given() -> None:
    """Whatever order they ran in."""
    clips = [speech([digit] * count) for digit, count in ((1, 9), (2, 1), (3, 5))]
    async with _scheduler(FakeRecognizer()) as scheduler:
        heard = await scheduler.recognize(clips)
    assert heard.recognitions == tuple(map(hear, clips))
    assert len(heard.batch_sizes) == 3
    assert heard.queue_s >= 0
    assert heard.inference_s >= 0


async def test_only_the_faulty_members_of_a_batch_fail() -> None:
    """The model raises on entries 1 and 3: those requests fail, the others are answered, the queue is empty again."""
    bad = {len(speech([1] * count)) for count in (2, 4)}

    def refuse(waveforms: Sequence[Waveform]) -> None:
        if any(len(waveform) in bad for waveform in waveforms):
            message = "no"
            raise ValueError(message)

    recognizer = FakeRecognizer(before=refuse)
    async with _scheduler(recognizer) as scheduler:
        answers = await asyncio.gather(
            *(scheduler.recognize([speech([1] * count)]) for count in (3, 2, 5, 4)), return_exceptions=True
        )
        assert scheduler.statistics().queue.windows == 0
    assert [isinstance(answer, RecognitionFailed) for answer in answers] == [False, True, False, True]
    assert isinstance(answers[1].__cause__, ValueError)


SILENCE, SHORTER = np.zeros(2 * SAMPLE_RATE, np.int16), np.zeros(SAMPLE_RATE, np.int16)
"""A window in which nothing is heard, and what is tried in its place."""


async def _second(scheduler: Scheduler, join: str, shorter: Waveform = SHORTER) -> Heard:
    """Two windows; the first one is empty and is tried once more."""
    if join == "independent":
        return await scheduler.recognize([SILENCE, speech([1, 2])], instead=[shorter, None].__getitem__)
    chunks = [Chunk(waveform=waveform, first=0, stop=None) for waveform in (SILENCE, speech([1, 2]))]
    return await scheduler.carry(chunks, instead=[Chunk(waveform=shorter, first=0, stop=None), None].__getitem__)


@pytest.mark.parametrize("join", ["independent", "carried"])
async def test_an_empty_window_is_tried_once_more_in_the_same_place(join: str) -> None:
    """However full the queue is by then: the request is inside, and no words get lost for want of a place."""
    recognizer, begun, release = _gate()
    async with _scheduler(recognizer, QueueLimits(audio_s=24, batch_s=30)) as scheduler:
        asked = asyncio.create_task(_second(scheduler, join, speech([7])))
        await asyncio.to_thread(begun.wait, 5)
        others = [asyncio.create_task(scheduler.recognize([speech([3] * 20)]))]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await scheduler.recognize([speech([7])])
        release.set()
        heard = await asked
        await asyncio.gather(*others)
        assert scheduler.statistics().queue.audio_s == 0
    assert [recognition.tokens for recognition in heard.recognitions] == [(8,), (2, 3)]
    assert len(heard.batch_sizes) == 2


@pytest.mark.parametrize("join", ["independent", "carried"])
@pytest.mark.parametrize("message", ["no", "not enough memory: you tried to allocate"])
async def test_an_empty_window_whose_second_try_fails_stays_empty(join: str, message: str) -> None:
    """What was heard in the others is an answer."""
    refused = []

    def refuse(waveforms: Sequence[Waveform]) -> None:
        if any(len(waveform) == len(SHORTER) for waveform in waveforms):
            refused.append(waveforms)
            raise RuntimeError(message)

    async with _scheduler(FakeRecognizer(before=refuse)) as scheduler:
        heard = await _second(scheduler, join)
        assert scheduler.statistics().queue.audio_s == 0
    assert [len(recognition.tokens) for recognition in heard.recognitions] == [0, 2]
    assert refused


@pytest.mark.parametrize("join", ["independent", "carried"])
async def test_a_device_that_is_lost_in_a_second_try_is_lost(join: str) -> None:
    """Half a transcript would look like a whole one."""

    def break_(waveforms: Sequence[Waveform]) -> None:
        if any(len(waveform) == len(SHORTER) for waveform in waveforms):
            message = "CUDA error: an illegal memory access was encountered"
            raise RuntimeError(message)

    losses = list[BaseException]()
    async with _scheduler(FakeRecognizer(before=break_), on_lost=losses.append) as scheduler:
        with pytest.raises(DeviceLost):
            await asyncio.wait_for(_second(scheduler, join), 10)
    assert len(losses) == 1


async def test_who_comes_back_after_the_device_was_lost_is_answered() -> None:
    """A file between two of its windows then: nobody serves the queue any more."""
    hand, losses = ByHand(), list[BaseException]()
    asking, go_on = threading.Event(), threading.Event()

    def instead(_number: int) -> Chunk | None:
        asking.set()
        go_on.wait(10)
        return Chunk(waveform=SHORTER, first=0, stop=None)

    def break_(waveforms: Sequence[Waveform]) -> None:
        if hear(waveforms[0]).tokens:
            message = "CUDA error: an illegal memory access was encountered"
            raise RuntimeError(message)

    async with _over(cast("Executor", hand), FakeRecognizer(before=break_), on_lost=losses.append) as scheduler:
        file = asyncio.create_task(scheduler.carry([Chunk(waveform=SILENCE, first=0, stop=None)] * 2, instead=instead))
        (await hand.next())()
        await asyncio.to_thread(asking.wait, 10)
        clip = asyncio.create_task(scheduler.recognize([speech([1])]))
        (await hand.next())()
        with pytest.raises(DeviceLost):
            await clip
        go_on.set()
        with pytest.raises(DeviceLost):
            await asyncio.wait_for(file, 10)


async def test_a_second_try_is_dropped_where_its_request_fails() -> None:
    """Nobody waits for it any more: it leaves the queue, and never runs."""
    hand = ByHand()

    def fail(waveforms: Sequence[Waveform]) -> None:
        if any(hear(waveform).tokens for waveform in waveforms):
            raise ValueError

    recognizer, long = FakeRecognizer(before=fail), speech([1] * 9)
    async with _over(cast("Executor", hand), recognizer) as scheduler:
        file = asyncio.create_task(scheduler.recognize([SILENCE, long], instead=[SHORTER, None].__getitem__))
        (await hand.next())()
        tell = await hand.next()
        assert recognizer.batches == [[len(SILENCE)], [len(long)]]
        async with asyncio.timeout(10):
            while scheduler.statistics().queue.audio_s * SAMPLE_RATE != len(SHORTER):
                await asyncio.sleep(0.001)
        tell()
        with pytest.raises(RecognitionFailed):
            await asyncio.wait_for(file, 10)
        assert scheduler.statistics().queue.windows == 0
        while not hand.jobs.empty():
            hand.jobs.get_nowait().run("by hand")
    assert recognizer.batches == [[len(SILENCE)], [len(long)]]


async def test_chunks_and_clips_share_a_batch() -> None:
    """Each has what is its own: a stretch from what it carried, or the whole."""
    recognizer, begun, release = _gate()
    sound = speech([1, 2, 3])
    async with _scheduler(recognizer) as scheduler:
        first = asyncio.create_task(scheduler.recognize([speech([4] * 9)]))
        await asyncio.to_thread(begun.wait, 5)
        chunk = Chunk(waveform=sound, first=20, stop=30, carried=5)
        clip = asyncio.create_task(scheduler.recognize([sound]))
        live = asyncio.create_task(scheduler.proceed(chunk, deadline_at=time.monotonic() + 1))
        await asyncio.sleep(0)
        release.set()
        recognition, carried, ran = await live
        heard = await clip
        await first
    assert recognizer.batches[1:] == [[len(sound), len(sound)]]
    assert (recognition.tokens, carried, ran.size) == ((3,), 6, 2)
    assert (heard.recognitions, heard.batch_sizes) == ((hear(sound),), (2,))


async def test_a_carried_file_goes_on_from_window_to_window() -> None:
    """Each has what the one before it left."""
    carried: list[object] = []

    class Noting(FakeRecognizer):
        def proceed(self, chunks: Sequence[Chunk], padded: object | None = None) -> list[tuple[Recognition, object]]:
            carried.extend(chunk.carried for chunk in chunks)
            return super().proceed(chunks, padded)

    async with _scheduler(Noting()) as scheduler:
        await scheduler.carry([Chunk(waveform=speech([digit]), first=0, stop=None) for digit in (1, 2, 3)])
    assert carried == [None, 1, 2]


async def test_who_leaves_makes_room_for_the_next_to_stand_ready() -> None:
    """While a batch runs, what stood behind it is chosen anew, and padded."""
    recognizer, begun, release = _gate()
    async with _scheduler(recognizer) as scheduler:
        running = asyncio.create_task(scheduler.recognize([speech([1])]))
        await asyncio.to_thread(begun.wait, 5)
        urgent, other = [
            asyncio.create_task(scheduler.recognize([speech([digit] * digit)], deadline_at=time.monotonic() + digit))
            for digit in (3, 9)
        ]
        async with asyncio.timeout(5):
            while [len(speech([3] * 3))] not in recognizer.padded:
                await asyncio.sleep(0.001)
            urgent.cancel()
            while [len(speech([9] * 9))] not in recognizer.padded:
                await asyncio.sleep(0.001)
        release.set()
        await asyncio.gather(running, other)


async def test_a_batch_teaches_how_long_the_next_takes() -> None:
    """By the clock, from its beginning to its end: what would be late by that is refused."""
    now_s = 0.0

    def take(waveforms: Sequence[Waveform]) -> None:
        nonlocal now_s
        now_s += 10 * sum(map(len, waveforms)) / SAMPLE_RATE

    hand = ByHand()
    async with _over(cast("Executor", hand), FakeRecognizer(before=take), clock=lambda: now_s) as scheduler:
        first = asyncio.create_task(scheduler.recognize([speech([1])]))
        (await hand.next())()
        await first
        clip = asyncio.create_task(scheduler.recognize([speech([2])], deadline_at=now_s + 1))
        await asyncio.sleep(0)
        scheduler.refuse_late(now_s + 10.1 * len(speech([2])) / SAMPLE_RATE)
        with pytest.raises(QueueFull) as caught:
            scheduler.refuse_late(now_s + 9.9 * len(speech([2])) / SAMPLE_RATE - 5)
        assert caught.value.retry_after_s == 6
        (await hand.next())()
        await clip


async def test_who_is_told_of_a_lost_device_finds_everybody_answered() -> None:
    """Nothing waits any more then."""
    waiting: list[int] = []

    def break_(_waveforms: Sequence[Waveform]) -> None:
        message = "CUDA error: an illegal memory access was encountered"
        raise RuntimeError(message)

    async with _scheduler(
        FakeRecognizer(before=break_), on_lost=lambda _: waiting.append(scheduler.statistics().queue.windows)
    ) as scheduler:
        asked = [scheduler.recognize([speech([digit] * digit)]) for digit in (1, 9)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [DeviceLost, DeviceLost]
    assert waiting == [0]


async def test_a_bug_of_ours_answers_everybody() -> None:
    """Where the loop itself raises, whoever waits hears of it, and so does who runs the process."""
    losses = list[BaseException]()
    async with _scheduler(FakeRecognizer(), on_lost=losses.append) as scheduler:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(scheduler._queue, "choose", lambda: 1 / 0)
            with pytest.raises(DeviceLost):
                await asyncio.wait_for(scheduler.recognize([speech([1])]), 10)
    assert [type(fault) for fault in losses] == [ZeroDivisionError]


async def test_a_device_that_is_lost_while_the_weights_come_back_is_lost() -> None:
    """The process is of no use any more, and who waits is told."""

    class Breaking(FakeRecognizer):
        def restore(self) -> None:
            if self.moves:
                message = "CUDA error: an illegal memory access was encountered"
                raise RuntimeError(message)
            super().restore()

    losses = list[BaseException]()
    async with _scheduler(Breaking(), idle_s=0.01, on_lost=losses.append) as scheduler:
        await _idle(scheduler)
        with pytest.raises(DeviceLost):
            await asyncio.wait_for(scheduler.recognize([speech([1])]), 10)
    assert len(losses) == 1


async def test_too_few_answers_are_a_fault_of_those_that_miss_one() -> None:
    """A model that returns fewer results than it got waveforms does not shift them among requests."""

    class Short(FakeRecognizer):
        def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:
            return super().recognize(waveforms, padded)[:1]

    clips = [speech([digit, digit]) for digit in (1, 2, 3)]
    async with _scheduler(Short()) as scheduler:
        answers = await asyncio.gather(*(scheduler.recognize([clip]) for clip in clips))
    assert [answer.recognitions for answer in answers] == [(hear(clip),) for clip in clips]


async def test_a_request_that_is_cancelled_leaves_the_queue() -> None:
    """Its windows never run."""
    recognizer, begun, release = _gate()
    async with _scheduler(recognizer) as scheduler:
        running = asyncio.create_task(scheduler.recognize([speech([1])]))
        await asyncio.to_thread(begun.wait, 5)
        doomed = asyncio.create_task(scheduler.recognize([speech([2] * 9), speech([2] * 8)]))
        await asyncio.sleep(0)
        assert scheduler.statistics().queue.windows == 2
        doomed.cancel()
        await asyncio.wait([doomed])
        assert scheduler.statistics().queue.windows == 0
        release.set()
        await running
    assert recognizer.batches == [[len(speech([1]))]]


async def test_the_next_batch_stands_ready_while_one_runs() -> None:
    """It is padded in another thread; who comes meanwhile and is more urgent takes its place."""
    recognizer, begun, release = _gate()
    async with _scheduler(recognizer) as scheduler:
        tasks = [asyncio.create_task(scheduler.recognize([speech([1])]))]
        await asyncio.to_thread(begun.wait, 5)
        file, clip = [speech([2] * 9)] * 2, speech([3] * 2)
        for windows in (file, [clip]):
            tasks.append(asyncio.create_task(scheduler.recognize(windows)))
            async with asyncio.timeout(5):
                while len(recognizer.padded) < len(tasks) - 1:
                    await asyncio.sleep(0.001)
        release.set()
        await asyncio.gather(*tasks)
    assert recognizer.padded[:2] == [[len(file[0])], [len(clip)]]
    assert recognizer.batches[1] == [len(clip)]


class ByHand:
    """Stands in for `seat.executor.Executor`: the test runs each job, and lets its end be known when it likes."""

    def __init__(self) -> None:
        self.jobs: asyncio.Queue[Job[Any]] = asyncio.Queue()

    def submit(self, call: Callable[[], Any]) -> Job[Any]:
        """Hand it to the test."""
        job = Job(call)
        self.jobs.put_nowait(job)
        return job

    async def next(self) -> Callable[[], None]:
        """Run what is next in line; what is returned tells the scheduler."""
        tell = (await asyncio.wait_for(self.jobs.get(), 10)).run("by hand")
        assert tell is not None
        return tell


async def test_who_leaves_a_batch_that_has_begun_takes_no_other_along() -> None:
    """What failed before runs again behind what runs; its waiter leaves after it has begun and before that is known."""

    def fail(waveforms: Sequence[Waveform]) -> None:
        if len(waveforms) > 1:
            raise ValueError

    hand, losses = ByHand(), list[BaseException]()
    async with _over(cast("Executor", hand), FakeRecognizer(before=fail), on_lost=losses.append) as scheduler:
        callers = [asyncio.create_task(scheduler.recognize([speech([digit])])) for digit in (1, 2, 3)]
        (await hand.next())()
        first, second = await hand.next(), await hand.next()
        callers[1].cancel()
        await asyncio.wait(callers, timeout=0.1)
        first()
        second()
        (await hand.next())()
        (await asyncio.wait_for(callers[0], 10), await asyncio.wait_for(callers[2], 10))
    assert losses == []


async def test_a_batch_that_has_begun_is_not_chosen_anew() -> None:
    """Somebody more urgent comes after it has begun, and before the end of the one before it is known: it runs once."""
    hand, recognizer = ByHand(), FakeRecognizer()
    async with _over(cast("Executor", hand), recognizer) as scheduler:
        callers = [asyncio.create_task(scheduler.recognize([speech([digit] * digit)])) for digit in (1, 4)]
        first, second = await hand.next(), await hand.next()
        urgent = scheduler.recognize([speech([9] * 9)], deadline_at=time.monotonic() + 9)
        callers.append(asyncio.create_task(urgent))
        await asyncio.wait(callers, timeout=0.1)
        first()
        second()
        (await hand.next())()
        await asyncio.wait_for(asyncio.gather(*callers), 10)
    assert recognizer.batches == [[len(speech([digit] * digit))] for digit in (1, 4, 9)]


async def test_what_would_be_late_is_refused_before_it_is_read() -> None:
    """Whatever it will hold: there is too much before even the shortest clip."""
    recognizer, begun, release = _gate()
    async with _scheduler(recognizer, QueueLimits(audio_s=100_000, batch_s=30)) as scheduler:
        tasks = [asyncio.create_task(scheduler.recognize([speech([1])]))]
        await asyncio.to_thread(begun.wait, 5)
        scheduler.refuse_late(time.monotonic() + 20)
        waits = scheduler.recognize([np.zeros(3000 * SAMPLE_RATE, np.int16)], deadline_at=time.monotonic() + 10)
        tasks.append(asyncio.create_task(waits))
        await asyncio.sleep(0)
        scheduler.refuse_late(time.monotonic() + 6000)
        with pytest.raises(QueueFull):
            scheduler.refuse_late(time.monotonic() + 20)
        release.set()
        await asyncio.gather(*tasks)
    with pytest.raises(ShuttingDown):
        scheduler.refuse_late(time.monotonic() + 20)


async def test_what_does_not_fit_the_queue_is_refused_at_once() -> None:
    """With an honest time to come back; a lone request of any length is let in."""
    recognizer, begun, release = _gate()
    async with _scheduler(recognizer, QueueLimits(audio_s=10, batch_s=30)) as scheduler:
        tasks = [asyncio.create_task(scheduler.recognize([speech([1])]))]
        await asyncio.to_thread(begun.wait, 5)
        tasks.append(asyncio.create_task(scheduler.recognize([speech([1] * 20)])))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull) as caught:
            await scheduler.recognize([speech([1])])
        assert 1 <= caught.value.retry_after_s <= 120
        release.set()
        await asyncio.gather(*tasks)


async def test_a_request_that_would_be_late_is_refused_at_once() -> None:
    """With the seconds that must pass; one that has time is let in."""
    recognizer, begun, release = _gate()
    async with _scheduler(recognizer, QueueLimits(audio_s=100_000, batch_s=30)) as scheduler:
        tasks = [asyncio.create_task(scheduler.recognize([speech([1])]))]
        await asyncio.to_thread(begun.wait, 5)
        waits = scheduler.recognize([np.zeros(3000 * SAMPLE_RATE, np.int16)], deadline_at=time.monotonic() + 10)
        tasks.append(asyncio.create_task(waits))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull) as caught:
            await scheduler.recognize([speech([1])], deadline_at=time.monotonic() + 20)
        assert 1 <= caught.value.retry_after_s <= 120
        tasks.append(asyncio.create_task(scheduler.recognize([speech([1])], deadline_at=time.monotonic() + 6000)))
        release.set()
        await asyncio.gather(*tasks)


async def test_leaving_answers_everybody() -> None:
    """Those that wait and those that run hear that the seat is shutting down."""
    recognizer, begun, release = _gate()
    async with Executor(leave_within_s=5) as executor:
        async with _over(executor, recognizer) as scheduler:
            running = asyncio.create_task(scheduler.recognize([speech([1])]))
            await asyncio.to_thread(begun.wait, 5)
            waiting = asyncio.create_task(scheduler.recognize([speech([2])]))
            await asyncio.sleep(0)
        answers = await asyncio.gather(running, waiting, return_exceptions=True)
        with pytest.raises(ShuttingDown):
            await scheduler.recognize([speech([1])])
        release.set()
    assert [type(answer) for answer in answers] == [ShuttingDown, ShuttingDown]


def _batch_sizes(recognizer: FakeRecognizer) -> list[int]:
    return [len(batch) for batch in recognizer.batches]


async def test_a_batch_that_runs_out_of_memory_is_halved() -> None:
    """Eight clips of 7.6 s, 1 MiB a second, 40 MiB of room: everybody has the words they would have alone."""
    meter = FakeMeter()
    recognizer = FakeRecognizer(before=meter.hunger(1), meter=meter)
    clips = [speech([digit] * 7) for digit in range(8)]
    async with _scheduler(recognizer, QueueLimits(audio_s=1000, batch_s=100), cap_mib=190) as scheduler:
        answers = await asyncio.gather(*(scheduler.recognize([clip]) for clip in clips))
    assert [answer.recognitions for answer in answers] == [(hear(clip),) for clip in clips]
    assert _batch_sizes(recognizer) == [8, 4, 4]
    assert {answer.peak_nbytes for answer in answers} == {meter.outside.nbytes + meter.highest}
    assert {answer.rest_nbytes for answer in answers} == {150 * MIB}


async def test_later_batches_are_as_large_as_memory_allows() -> None:
    """What the first taught: no batch fails a second time."""
    meter = FakeMeter()
    recognizer = FakeRecognizer(before=meter.hunger(1), meter=meter)
    clips = [speech([digit] * 7) for digit in range(8)]
    async with _scheduler(recognizer, QueueLimits(audio_s=1000, batch_s=100), cap_mib=190) as scheduler:
        await asyncio.gather(*(scheduler.recognize([clip]) for clip in clips))
        recognizer.batches.clear()
        await asyncio.gather(*(scheduler.recognize([clip]) for clip in clips))
    assert _batch_sizes(recognizer) == [5, 3]


async def test_a_window_that_does_not_fit_alone_is_unavailable_and_the_seat_lives() -> None:
    """It is tried twice, its neighbours are answered, and an earlier clip has its earlier words."""
    meter = FakeMeter()
    hungry = len(speech([5] * 9))

    def take(waveforms: Sequence[Waveform]) -> None:
        meter.hunger(20 if any(len(waveform) == hungry for waveform in waveforms) else 1)(waveforms)

    recognizer = FakeRecognizer(before=take, meter=meter)
    clip = speech([4, 2])
    async with _scheduler(recognizer, cap_mib=190) as scheduler:
        before = (await scheduler.recognize([clip])).recognitions
        answers = await asyncio.gather(
            scheduler.recognize([speech([5] * 9)]), scheduler.recognize([speech([5] * 8)]), return_exceptions=True
        )
        after = (await scheduler.recognize([clip])).recognitions
    assert isinstance(answers[0], MemoryLimit)
    assert 1 <= answers[0].retry_after_s <= 120
    assert not isinstance(answers[1], BaseException)
    assert before == after == (hear(clip),)


@pytest.mark.usefixtures("tidy")
async def test_a_batch_over_the_resident_cap_is_halved() -> None:
    """For real: each clip takes 40 MiB for a moment, and there is room for one and a half."""
    recognizer = FakeRecognizer(before=Hunger(10))
    clips = [speech([1, 2, 3])[: 4 * SAMPLE_RATE] for _ in range(2)]
    waveforms = [np.resize(clip, 4 * SAMPLE_RATE) for clip in clips]
    cap_mib = recognizer.meter.used() // MIB + 60
    async with _scheduler(recognizer, cap_mib=cap_mib) as scheduler:
        answers = await asyncio.gather(*(scheduler.recognize([waveform]) for waveform in waveforms))
    assert [answer.recognitions for answer in answers] == [(hear(waveform),) for waveform in waveforms]
    assert _batch_sizes(recognizer) == [2, 1, 1]
    assert max(answer.peak_nbytes for answer in answers) <= cap_mib * MIB


async def test_what_can_never_fit_is_refused_before_it_waits() -> None:
    """4xx: sending it again is pointless."""
    meter = FakeMeter()
    recognizer = FakeRecognizer(before=meter.hunger(2), meter=meter)
    async with Executor() as executor:
        governor = Governor(meter, cap=190 * MIB, returns="always")
        governor.run(LONGEST_S, lambda: recognizer.recognize([np.zeros(LONGEST_S * SAMPLE_RATE, np.int16)]))
        governor.settle(LONGEST_S)
        async with Scheduler(executor, recognizer, governor, LIMITS, lambda _fault: None) as scheduler:
            with pytest.raises(ExceedsMemory):
                await scheduler.recognize([np.zeros(60 * SAMPLE_RATE, np.int16)])
            assert scheduler.statistics().queue.windows == 0


async def test_after_a_fatal_fault_everybody_is_answered_and_nothing_runs() -> None:
    """Those in the batch, those that wait, and those that come later; whoever runs the process is told once."""
    begun, release = threading.Event(), threading.Event()
    lost: list[BaseException] = []

    def fail(_waveforms: Sequence[Waveform]) -> None:
        begun.set()
        release.wait(10)
        message = "CUDA error: an illegal memory access was encountered"
        raise RuntimeError(message)

    recognizer = FakeRecognizer(before=fail)
    async with _scheduler(recognizer, on_lost=lost.append) as scheduler:
        tasks = [asyncio.create_task(scheduler.recognize([speech([1])] * 2)) for _ in range(2)]
        await asyncio.to_thread(begun.wait, 5)
        tasks.append(asyncio.create_task(scheduler.recognize([speech([2] * 20)])))
        await asyncio.sleep(0)
        release.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(DeviceLost):
            await scheduler.recognize([speech([1])])
    assert [type(answer) for answer in answers] == [DeviceLost] * 3
    assert [str(fault) for fault in lost] == ["CUDA error: an illegal memory access was encountered"]
    assert len(recognizer.batches) == 1


async def _idle(scheduler: Scheduler) -> None:
    async with asyncio.timeout(5):
        while not scheduler.weights.released:
            await asyncio.sleep(0.001)


@pytest.mark.usefixtures("tidy")
async def test_weights_leave_when_nothing_is_to_be_done_and_come_back_for_the_next_request() -> None:
    """The resident memory falls and rises by what they are; both moves have their times; the words are the same."""
    recognizer = FakeRecognizer(weights_mib=100)
    async with _scheduler(recognizer, idle_s=0.05) as scheduler:
        unmoved = scheduler.weights.statistics()
        before = await scheduler.recognize([speech([6, 1])])
        await _idle(scheduler)
        released_nbytes = recognizer.meter.used()
        after = await scheduler.recognize([speech([6, 1])])
        moved = scheduler.weights.statistics()
    assert recognizer.moves == ["restore", "release", "restore"]
    assert before.recognitions == after.recognitions
    assert after.rest_nbytes - released_nbytes == pytest.approx(100 * MIB, abs=12 * MIB)
    assert (unmoved.release_s, unmoved.restore_s) == (None, None)
    assert not moved.released
    assert moved.release_s is not None
    assert moved.restore_s is not None


async def test_weights_that_cannot_come_back_are_asked_for_again() -> None:
    """The card was full meanwhile: that request hears so, the next one is answered."""

    class Crowded(FakeRecognizer):
        crowded = True

        def restore(self) -> None:
            if self.moves and self.crowded:
                raise MemoryError
            super().restore()

    recognizer = Crowded()
    async with _scheduler(recognizer, idle_s=0.05) as scheduler:
        await _idle(scheduler)
        with pytest.raises(MemoryLimit):
            await scheduler.recognize([speech([3])])
        assert scheduler.weights.released
        recognizer.crowded = False
        assert (await scheduler.recognize([speech([3])])).recognitions == (hear(speech([3])),)


async def test_weights_that_cannot_leave_stay() -> None:
    """A full disk, say: the seat serves on."""

    class Heavy(FakeRecognizer):
        tried = threading.Event()

        def release(self) -> None:
            self.tried.set()
            raise OSError

    recognizer = Heavy()
    async with _scheduler(recognizer, idle_s=0.02) as scheduler:
        await asyncio.to_thread(recognizer.tried.wait, 5)
        assert not scheduler.weights.released
        assert (await scheduler.recognize([speech([3])])).recognitions == (hear(speech([3])),)
