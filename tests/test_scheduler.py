"""Windows of many requests on one thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seat.errors import QueueFull, RecognitionFailed, ShuttingDown
from seat.executor import Executor
from seat.recognizer import SAMPLE_RATE, Recognition, Waveform
from seat.scheduler import PADDING_LIMIT, Entry, QueueLimits, Scheduler, choose_batch
from tests.fakes import FakeRecognizer, hear, speech

LIMITS = QueueLimits(audio_s=100, batch_s=30)


def _entry(seconds: float, *, turn: int = 0, arrival: int = 0) -> Entry:
    return Entry(
        waveform=np.zeros(round(seconds * SAMPLE_RATE), np.int16),
        turn=turn,
        arrival=arrival,
        future=None,  # type: ignore[arg-type]  the policy does not look at it
    )


@asynccontextmanager
async def _scheduler(recognizer: FakeRecognizer, limits: QueueLimits = LIMITS) -> AsyncIterator[Scheduler]:
    async with Executor() as executor, Scheduler(executor, recognizer.recognize, limits) as scheduler:
        yield scheduler


def _gate() -> tuple[FakeRecognizer, threading.Event, threading.Event]:
    """A recognizer that tells when its first batch has begun and then waits to be released."""
    begun, release = threading.Event(), threading.Event()

    def wait(_waveforms: Sequence[Waveform]) -> None:
        begun.set()
        release.wait(10)

    return FakeRecognizer(before=wait), begun, release


@given(
    waiting=st.lists(st.tuples(st.floats(1, 45), st.integers(0, 5), st.integers(0, 20)), min_size=1, max_size=30),
    batch_s=st.floats(1, 200),
)
def test_a_batch_holds_the_most_urgent_and_keeps_its_budget(
    waiting: list[tuple[float, int, int]], batch_s: float
) -> None:
    """Whatever waits: the first in order is in, padding stays within bounds, one window always fits."""
    entries = [_entry(seconds, turn=turn, arrival=arrival) for seconds, turn, arrival in waiting]
    batch = choose_batch(entries, round(batch_s * SAMPLE_RATE))
    lengths = [len(entry.waveform) for entry in batch]
    assert min((entry.turn, entry.arrival) for entry in entries) == (batch[0].turn, batch[0].arrival)
    assert len(batch) == 1 or max(lengths) * len(batch) <= batch_s * SAMPLE_RATE + 1
    assert max(lengths) <= PADDING_LIMIT * min(lengths)


def test_a_short_request_goes_before_the_later_windows_of_a_long_file() -> None:
    """A clip that arrives last waits for the batch in work, not for the file."""
    long = [_entry(45, turn=turn, arrival=0) for turn in range(1, 10)]
    short = _entry(3, turn=0, arrival=7)
    assert choose_batch([*long, short], 120 * SAMPLE_RATE) == [short]


def test_long_files_take_turns() -> None:
    """Two files that arrived one after the other share a batch window by window."""
    files = [_entry(45, turn=turn, arrival=arrival) for arrival in range(2) for turn in range(3)]
    batch = choose_batch(files, 90 * SAMPLE_RATE)
    assert [(entry.turn, entry.arrival) for entry in batch] == [(0, 0), (0, 1)]


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
        assert scheduler.statistics().windows == 0
    assert [isinstance(answer, RecognitionFailed) for answer in answers] == [False, True, False, True]
    assert isinstance(answers[1].__cause__, ValueError)


async def test_too_few_answers_are_a_fault_of_those_that_miss_one() -> None:
    """A model that returns fewer results than it got waveforms does not shift them among requests."""

    class Short(FakeRecognizer):
        def recognize(self, waveforms: Sequence[Waveform]) -> list[Recognition]:
            return super().recognize(waveforms)[:1]

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
        assert scheduler.statistics().windows == 2
        doomed.cancel()
        await asyncio.wait([doomed])
        assert scheduler.statistics().windows == 0
        release.set()
        await running
    assert recognizer.batches == [[len(speech([1]))]]


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


async def test_leaving_answers_everybody() -> None:
    """Those that wait and those that run hear that the seat is shutting down."""
    recognizer, begun, release = _gate()
    async with Executor(leave_within_s=5) as executor:
        async with Scheduler(executor, recognizer.recognize, LIMITS) as scheduler:
            running = asyncio.create_task(scheduler.recognize([speech([1])]))
            await asyncio.to_thread(begun.wait, 5)
            waiting = asyncio.create_task(scheduler.recognize([speech([2])]))
            await asyncio.sleep(0)
        answers = await asyncio.gather(running, waiting, return_exceptions=True)
        with pytest.raises(ShuttingDown):
            await scheduler.recognize([speech([1])])
        release.set()
    assert [type(answer) for answer in answers] == [ShuttingDown, ShuttingDown]
