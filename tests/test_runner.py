"""One batch on the GPU thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from seat.batches import Entry, Kind, Ticket
from seat.errors import DeviceLost
from seat.executor import Executor
from seat.memory import Governor, Result
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.runner import Runner
from seat.telemetry import here
from tests.fakes import FakeMeter, FakeRecognizer, hear, speech

PATIENCE_S = 10.0
"""Seconds after which something is taken never to come."""


def _runner(executor: Executor, recognizer: FakeRecognizer) -> Runner:
    ticks = iter(range(1000))
    return Runner(executor, recognizer, Governor(FakeMeter(), cap=None, returns="always"), lambda: float(next(ticks)))


def _entry(waveform: Waveform) -> Entry:
    ticket = Ticket(arrival=1, kind=Kind.CLIP, deadline_at=0.0)
    future = asyncio.get_running_loop().create_future()
    return Entry(waveform=waveform, turn=0, ticket=ticket, origin=here(), future=future)


async def test_a_batch_gives_its_words_and_what_it_took() -> None:
    """Padded ahead in another thread or not, the words are the same."""
    recognizer = FakeRecognizer()
    entries = [_entry(speech([digit] * digit)) for digit in (2, 3)]
    async with Executor() as executor:
        runner = _runner(executor, recognizer)
        outcomes = [
            await runner.submit(entries).outcome,
            await runner.submit(entries, await runner.pad(entries)).outcome,
        ]
    for outcome in outcomes:
        assert outcome.entries == tuple(entries)
        assert outcome.recognitions == tuple(hear(entry.waveform) for entry in entries)
        assert outcome.audio_s == sum(len(entry.waveform) for entry in entries) / SAMPLE_RATE
        assert outcome.ran is not None
        assert (outcome.ran.size, outcome.ran.ended_at - outcome.ran.began_at) == (2, 1.0)
    assert recognizer.padded == [[len(entry.waveform) for entry in entries]]


async def test_the_governor_is_told_of_padding() -> None:
    """A batch costs what its longest window does, as often as it has windows."""
    asked: list[float] = []

    class Noting(Governor):
        def run(self, padded_s: float, call: Callable[[], Result]) -> Result:
            asked.append(padded_s)
            return super().run(padded_s, call)

    governor = Noting(FakeMeter(), cap=None, returns="always")
    async with Executor() as executor:
        runner = Runner(executor, FakeRecognizer(), governor, lambda: 0.0)
        await runner.submit([_entry(speech([digit] * digit)) for digit in (2, 3)]).outcome
        runner.close()
    assert asked == [2 * len(speech([3] * 3)) / SAMPLE_RATE]


async def test_padding_waits_for_no_thread_of_others() -> None:
    """Where spooling, parsing and rendering hold all of asyncio's own, the next batch is padded all the same."""
    recognizer, busy = FakeRecognizer(), threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with Executor() as executor:
        runner = _runner(executor, recognizer)
        other = asyncio.create_task(asyncio.to_thread(busy.wait))
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(PATIENCE_S):
                padded = await runner.pad([_entry(speech([2]))])
        finally:
            busy.set()
        await other
        runner.close()
    assert padded is not None
    assert recognizer.padded == [[len(speech([2]))]]


async def test_who_has_gone_is_not_computed() -> None:
    """Also where the batch was padded with them in it; where nobody is left, nothing runs."""
    recognizer = FakeRecognizer()
    entries = [_entry(speech([digit] * digit)) for digit in (2, 3)]
    async with Executor() as executor:
        runner = _runner(executor, recognizer)
        padded = await runner.pad(entries)
        entries[0].future.cancel()
        some = await runner.submit(entries, padded).outcome
        entries[1].future.cancel()
        none = await runner.submit(entries, padded).outcome
    assert (some.entries, some.recognitions) == ((entries[1],), (hear(entries[1].waveform),))
    assert (none.entries, none.ran) == ((), None)
    assert recognizer.batches == [[len(entries[1].waveform)]]


async def test_nothing_runs_on_a_device_that_is_lost() -> None:
    """What stood behind the batch that lost it is not even tried."""

    def fail(_waveforms: Sequence[Waveform]) -> None:
        message = "CUDA error: device-side assert triggered"
        raise RuntimeError(message)

    recognizer = FakeRecognizer(before=fail)
    async with Executor() as executor:
        runner = _runner(executor, recognizer)
        jobs = [runner.submit([_entry(speech([1]))]) for _ in range(2)]
        with pytest.raises(RuntimeError, match="device-side"):
            await jobs[0].outcome
        with pytest.raises(DeviceLost):
            await jobs[1].outcome
    assert len(recognizer.batches) == 1
