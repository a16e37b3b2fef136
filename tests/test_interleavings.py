"""Whatever comes, goes, fails and ends in whatever order: every window of a scheduler is answered, once and rightly."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.batches import Heard
from seat.errors import DeviceLost, MemoryLimit, QueueFull, RecognitionFailed, ShuttingDown
from seat.memory import Governor
from seat.meter import MIB
from seat.queueing import LONGEST_RETRY_AFTER_S, QueueLimits
from seat.recognizer import SAMPLE_RATE, Chunk, Waveform
from seat.scheduler import Scheduler, SchedulerStatistics
from tests.fakes import FakeMeter, FakeRecognizer, hear, speech
from tests.simulated import SimulatedExecutor, simulate

POISON, HUNGER, AWKWARD = 7, 8, 6
"""Digits on which the model here raises, asks for more memory than there is, or cannot be padded ahead."""

FOR_EVER_S = 1000.0
"""Longer than all there is to do takes."""

CAP_MIB = 190
"""40 MiB of room beside what rests."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One caller."""

    at_s: float
    windows: tuple[int, ...]
    """The digit said in each."""
    how: Literal["side by side", "carried", "live"]
    hard_of_hearing: bool
    """Whether a file begins with a window in which nothing is heard: the first of the others is tried instead."""
    gone_after_s: float
    patience_s: float


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """All that happens to one scheduler."""

    requests: list[Request]
    takes_s: list[float]
    """What the batches take, in turn."""
    lost_in_batch: int | None
    """The batch in which the device is lost."""
    ends_at_s: float
    idle_s: float | None
    stuck: list[bool]
    """Whether the weights cannot be brought back, each time in turn."""


@dataclass
class Seen:
    """What became of it."""

    recognizer: FakeRecognizer
    answers: list[Heard | BaseException] = field(default_factory=list)
    statistics: SchedulerStatistics = field(init=False)
    losses: list[BaseException] = field(default_factory=list)


REQUESTS = st.builds(
    Request,
    at_s=st.floats(0, 20),
    windows=st.lists(st.integers(0, 9), min_size=1, max_size=6).map(tuple),
    how=st.sampled_from(["side by side", "carried", "live"]),
    hard_of_hearing=st.booleans(),
    gone_after_s=st.one_of(st.just(math.inf), st.floats(0, 8)),
    patience_s=st.one_of(st.just(math.inf), st.floats(0.5, 30)),
)
TRAFFIC = st.builds(
    Traffic,
    requests=st.lists(REQUESTS, max_size=10),
    takes_s=st.lists(st.floats(0.001, 3), min_size=1, max_size=8),
    lost_in_batch=st.one_of(st.none(), st.integers(1, 8)),
    ends_at_s=st.one_of(st.just(FOR_EVER_S), st.floats(0, 20)),
    idle_s=st.one_of(st.none(), st.floats(0.01, 5)),
    stuck=st.lists(st.booleans(), min_size=1, max_size=4),
)


def _window(digit: int) -> Waveform:
    """Longer by its digit, so that batches are padded."""
    return np.resize(speech([digit]), (2 * SAMPLE_RATE) + 1000 * digit)


SILENCE = np.zeros(2 * SAMPLE_RATE - 1000, np.int16)
"""As long as no digit's window."""


def _digits(waveforms: Sequence[Waveform]) -> list[int]:
    return [(len(waveform) - 2 * SAMPLE_RATE) // 1000 for waveform in waveforms]


class Moody(FakeRecognizer):
    """Cannot always pad ahead, nor always bring its weights back."""

    stuck: Iterator[bool] = cycle([False])

    def pad(self, waveforms: Sequence[Waveform]) -> list[Waveform]:
        """Raise on one digit."""
        if AWKWARD in _digits(waveforms):
            message = "not enough memory: you tried to allocate"
            raise RuntimeError(message)
        return super().pad(waveforms)

    def restore(self) -> None:
        """Raise where it is its turn to."""
        if next(self.stuck):
            message = "they do not come back"
            raise ValueError(message)
        super().restore()


def _recognizer(traffic: Traffic, executor: SimulatedExecutor) -> FakeRecognizer:
    meter = FakeMeter()
    batches = 0

    def before(waveforms: Sequence[Waveform]) -> None:
        nonlocal batches
        executor.pass_time()
        batches += 1
        digits = _digits(waveforms)
        if batches == traffic.lost_in_batch:
            message = "CUDA error: an illegal memory access was encountered"
            raise RuntimeError(message)
        assert traffic.lost_in_batch is None or batches < traffic.lost_in_batch, "the device is lost, and still asked"
        if POISON in digits:
            message = "this one cannot be recognized"
            raise ValueError(message)
        meter.hunger(100 if HUNGER in digits else 4)(waveforms)

    moody = Moody(before=before, meter=meter)
    moody.stuck = cycle(traffic.stuck)
    return moody


async def _play(traffic: Traffic) -> Seen:
    takes_s = cycle(traffic.takes_s)
    executor = SimulatedExecutor(lambda: next(takes_s))
    seen, clock = Seen(recognizer=_recognizer(traffic, executor)), executor.clock
    governor = Governor(seen.recognizer.meter, cap=CAP_MIB * MIB, returns="always")
    governor.settle(30)
    scheduler = Scheduler(
        executor,
        seen.recognizer,
        governor,
        QueueLimits(audio_s=60, batch_s=30),
        seen.losses.append,
        idle_s=traffic.idle_s,
        clock=clock,
    )

    async def call(request: Request) -> Heard:
        await asyncio.sleep(request.at_s)
        windows, deadline_at = [_window(digit) for digit in request.windows], clock() + request.patience_s
        instead = [windows[0], *[None] * len(windows)]
        if request.hard_of_hearing and request.how != "live":
            windows.insert(0, SILENCE)
        chunks = [Chunk(waveform=window, first=0, stop=None) for window in windows]
        if request.how == "carried":
            others = [None if other is None else Chunk(waveform=other, first=0, stop=None) for other in instead]
            return await scheduler.carry(chunks, deadline_at=deadline_at, instead=others.__getitem__)
        if request.how == "live":
            began_at, results = clock(), []
            for chunk in chunks:
                recognition, _, ran = await scheduler.proceed(chunk, deadline_at=deadline_at)
                results.append((recognition, ran))
            return Heard.of(results, began_at)
        return await scheduler.recognize(windows, deadline_at=deadline_at, instead=instead.__getitem__)

    async def caller(request: Request) -> Heard:
        async with asyncio.timeout(request.at_s + request.gone_after_s if request.gone_after_s < math.inf else None):
            return await call(request)

    async with executor:
        async with scheduler:
            callers = [asyncio.create_task(caller(request)) for request in traffic.requests]
            if callers:
                await asyncio.wait(callers, timeout=traffic.ends_at_s)
            seen.statistics = scheduler.statistics()
        seen.answers = await asyncio.gather(*callers, return_exceptions=True)
    return seen


def _owed(request: Request, answer: Heard | BaseException, traffic: Traffic) -> bool:
    """Whether a request may be answered so."""
    if isinstance(answer, Heard):
        heard = [recognition.tokens for recognition in answer.recognitions]
        said = [hear(_window(digit)).tokens for digit in request.windows]
        if request.hard_of_hearing and request.how != "live":
            return heard[1:] == said and heard[0] in (said[0], ())[: 1 + (request.windows[0] in (POISON, HUNGER))]
        return heard == said
    return {
        TimeoutError: request.gone_after_s < math.inf,
        RecognitionFailed: POISON in request.windows or (traffic.idle_s is not None and any(traffic.stuck)),
        MemoryLimit: HUNGER in request.windows,
        DeviceLost: traffic.lost_in_batch is not None,
        ShuttingDown: traffic.ends_at_s < FOR_EVER_S,
        QueueFull: 1 <= getattr(answer, "retry_after_s", 0) <= LONGEST_RETRY_AFTER_S,
    }.get(type(answer), False)


@settings(max_examples=400, deadline=None)
@given(traffic=TRAFFIC)
def test_every_request_is_answered_once_and_rightly(traffic: Traffic) -> None:
    """With its own words, or with an error that it has coming; and nothing stays behind."""
    seen = simulate(_play(traffic))
    for request, answer in zip(traffic.requests, seen.answers, strict=True):
        assert _owed(request, answer, traffic), (request, answer)
    assert seen.recognizer.most_inside <= 1
    if traffic.ends_at_s == FOR_EVER_S:
        assert (seen.statistics.queue.windows, seen.statistics.queue.audio_s) == (0, 0)
    assert len(seen.losses) <= (traffic.lost_in_batch is not None)


@settings(max_examples=100, deadline=None)
@given(
    files=st.lists(st.integers(2, 12), min_size=1, max_size=6),
    at_s=st.floats(0.1, 8),
    takes_s=st.lists(st.floats(0.1, 1), min_size=1, max_size=5),
)
def test_a_clip_waits_for_one_batch(files: list[int], at_s: float, takes_s: list[float]) -> None:
    """However many files wait, and whatever stands ready: it is in the batch after the one that runs when it comes."""

    async def play() -> tuple[int, int]:
        recognizer, takes = FakeRecognizer(meter=FakeMeter()), cycle(takes_s)
        governor = Governor(recognizer.meter, cap=None, returns="always")
        governor.settle(30)
        clip = speech([1, 2, 3])
        executor = SimulatedExecutor(lambda: next(takes))
        clock = asyncio.get_running_loop().time
        limits = QueueLimits(audio_s=10_000, batch_s=30)
        async with executor, Scheduler(executor, recognizer, governor, limits, raise_, clock=clock) as scheduler:
            callers = [asyncio.create_task(scheduler.recognize([_window(9)] * windows)) for windows in files]
            await asyncio.sleep(at_s)
            for _ in range(9):
                await asyncio.sleep(0)  # a batch that ends just now may be followed first
            begun = len(recognizer.batches)
            await scheduler.recognize([clip])
            place = next(place for place, batch in enumerate(recognizer.batches) if len(clip) in batch)
            await asyncio.gather(*callers)
        return place, begun

    place, begun = simulate(play())
    assert place <= begun


def raise_(fault: BaseException) -> None:
    """What no fault should reach."""
    raise fault
