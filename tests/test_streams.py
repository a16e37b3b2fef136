"""Live sessions of one seat: how many, and what they do to the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seat.errors import Stalled, TooManySessions
from seat.executor import Executor
from seat.memory import Governor
from seat.queueing import QueueLimits
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.scheduler import Scheduler
from seat.streams import StreamLimits, Streams
from seat.telemetry import here
from seat.turn import Event, Failed, Whole
from seat.vad import Turns
from tests.fakes import VOCABULARY, FakeRecognizer, hear, speech

LIMITS = StreamLimits(window_s=(3.2, 1.04, 1.04), sessions=2, session_s=None, waiting_s=30, stall_s=30)


@asynccontextmanager
async def _streams(recognizer: FakeRecognizer, **wanted: Any) -> AsyncIterator[tuple[Streams, Scheduler]]:
    governor = Governor(recognizer.meter, cap=None, returns="always")
    governor.settle(16)
    limits = QueueLimits(audio_s=1000, batch_s=60)
    async with Executor() as executor, Scheduler(executor, recognizer, governor, limits, lambda _: None) as scheduler:
        yield Streams(scheduler, VOCABULARY, replace(LIMITS, **wanted)), scheduler


async def _ignore(_event: Event) -> None:
    """Say nothing."""


async def test_no_more_sessions_than_may_be() -> None:
    """One that ends makes room, however it ends."""
    async with _streams(FakeRecognizer()) as (streams, _):
        with streams.session(_ignore, None), streams.session(_ignore, None):
            with pytest.raises(TooManySessions), streams.session(_ignore, None):
                pass
            assert streams.statistics().open == 2
        with pytest.raises(ZeroDivisionError), streams.session(_ignore, None):
            raise ZeroDivisionError
        with streams.session(_ignore, None):
            assert (streams.statistics().open, streams.statistics().opened) == (1, 4)


async def test_what_waits_is_told() -> None:
    """In all sessions together, from a sample's arrival until it has been heard; silence waits for nobody."""
    async with _streams(FakeRecognizer()) as (streams, _):
        with streams.session(_ignore, None) as session, streams.session(_ignore, Turns()) as silent:
            await session.append(speech([1, 2, 3]))
            await silent.append(np.zeros(SAMPLE_RATE, np.int16))
            assert streams.statistics().waiting_s == len(speech([1, 2, 3])) / SAMPLE_RATE
            await session.end()
            session.commit()
            await session.run()
            assert streams.statistics().waiting_s == 0


async def test_a_sessions_batches_are_those_of_one_request() -> None:
    """For whoever traces them; another session has its own."""
    async with _streams(FakeRecognizer()) as (streams, _):
        with streams.session(_ignore, None):
            assert here() is here()
            first = here()
        with streams.session(_ignore, None):
            assert here() is not first


async def test_sessions_and_files_share_batches() -> None:
    """Twelve speak at once while files are heard: each gets their own words, and some batch holds several windows."""
    recognizer = FakeRecognizer()
    async with _streams(recognizer, sessions=12) as (streams, scheduler):

        async def speak(number: int) -> str:
            said: list[str] = []

            async def note(event: Event) -> None:
                if isinstance(event, Whole):
                    said.append(event.snapshot().text)

            with streams.session(note, Turns()) as session:
                async with asyncio.TaskGroup() as group:
                    group.create_task(session.run())
                    await session.append(speech([number % 9, 1, 2, 3, 4, 5], gap_s=0.3))
                    await session.end()
            return " ".join(said)

        files = [speech([number % 10] * 9) for number in range(6)]
        heard, *said = await asyncio.gather(scheduler.recognize(files), *map(speak, range(12)))
    names = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
    assert said == [f"{names[number % 9]} one two three four five" for number in range(12)]
    assert heard.recognitions == tuple(map(hear, files))
    assert max(map(len, recognizer.batches)) > 1


async def test_a_live_chunk_goes_before_a_file_and_after_one_clip() -> None:
    """It is let in where the queue is full, and waits behind what runs for no more than a clip."""
    begun, release = threading.Event(), threading.Event()

    def wait(_waveforms: Sequence[Waveform]) -> None:
        begun.set()
        release.wait(10)

    recognizer, live = FakeRecognizer(before=wait), speech([5])
    async with _streams(recognizer) as (streams, scheduler):
        tasks = [asyncio.create_task(scheduler.recognize([speech([1])]))]
        await asyncio.to_thread(begun.wait, 10)
        others = ([speech([1] * 30)] * 2, [speech([2] * 15)], [speech([3] * 5)])
        tasks += [asyncio.create_task(scheduler.recognize(windows)) for windows in others]
        await asyncio.sleep(0)
        with streams.session(_ignore, None) as session:
            await session.append(live)
            session.commit()
            await session.end()
            tasks.append(asyncio.create_task(session.run()))
            while scheduler.statistics().queue.windows < 5:
                await asyncio.sleep(0)
            release.set()
            await asyncio.gather(*tasks)
    led = [batch[0] for batch in recognizer.batches]
    assert led[1:4] == [len(speech([2] * 15)), len(live), len(speech([3] * 5))]


async def test_idle_sessions_cost_no_batch() -> None:
    """Fifty, silent in every way, for a minute."""
    recognizer = FakeRecognizer()
    async with _streams(recognizer, sessions=50) as (streams, scheduler):

        async def idle(number: int) -> None:
            with streams.session(_ignore, Turns() if number % 2 else None) as session:
                async with asyncio.TaskGroup() as group:
                    group.create_task(session.run())
                    await session.append(np.full(60 * SAMPLE_RATE, number, np.int16))
                    await session.end()

        await asyncio.gather(*map(idle, range(50)))
        assert scheduler.statistics().batches == 0
    assert recognizer.batches == []


async def test_what_a_call_that_hangs_does_not_hear_is_told_and_the_session_goes_on() -> None:
    """The turn fails when a chunk has waited for as long as a call may take; the next one is heard."""
    told: asyncio.Queue[Failed | Whole] = asyncio.Queue()
    armed, release = threading.Event(), threading.Event()
    armed.set()

    def hold(_waveforms: Sequence[Waveform]) -> None:
        if armed.is_set():
            release.wait(10)

    async def note(event: Event) -> None:
        if isinstance(event, Failed | Whole):
            told.put_nowait(event)

    async with _streams(FakeRecognizer(before=hold), stall_s=0.5) as (streams, _), asyncio.timeout(5):
        with streams.session(note, None) as session:
            running = asyncio.create_task(session.run())
            await session.append(speech([1]))
            committed = session.commit()
            failed = await told.get()
            assert isinstance(failed, Failed)
            assert (failed.turn, type(failed.fault)) == (committed, Stalled)
            armed.clear()
            release.set()
            await session.append(speech([2]))
            session.commit()
            whole = await told.get()
            assert isinstance(whole, Whole)
            assert whole.snapshot().text == "two"
            await session.end()
            await running
