"""What a model does before anybody may ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from seat.errors import CapTooSmall, GraphsUnavailable, MemoryLimit
from seat.executor import Executor
from seat.memory import Governor
from seat.meter import MIB
from seat.recognizer import SAMPLE_RATE
from seat.warmup import WarmUp
from tests.fakes import FakeMeter, FakeRecognizer


@asynccontextmanager
async def _warm_up(recognizer: FakeRecognizer, cap_mib: int | None = None) -> AsyncIterator[tuple[WarmUp, Governor]]:
    """That of a seat whose longest window has 30 seconds."""
    governor = Governor(recognizer.meter, cap=cap_mib and cap_mib * MIB, returns="always")
    async with Executor() as executor:
        yield WarmUp(executor, recognizer, governor, 30 * SAMPLE_RATE), governor


async def test_it_ascends_to_the_longest_window() -> None:
    """A batch first, then each length once: no shorter than a second, no longer than the longest window."""
    recognizer = FakeRecognizer()
    async with _warm_up(recognizer) as (warm_up, _):
        assert await warm_up.run((8, 0.2, 1, 60)) > 0
    assert recognizer.batches == [[SAMPLE_RATE] * 2] + [[seconds * SAMPLE_RATE] for seconds in (1, 8, 30)]


async def test_it_settles_the_memory() -> None:
    """The allocator is bound for good, and a second's cost is known."""
    meter = FakeMeter()
    async with _warm_up(FakeRecognizer(before=meter.hunger(1), meter=meter), cap_mib=400) as (warm_up, governor):
        await warm_up.run(())
    assert (meter.bound_to, governor.statistics().nbytes_per_s) == (400 * MIB, MIB)


async def test_a_card_that_is_too_small_stops_the_start() -> None:
    """Its allocator raises while the longest window runs."""
    meter = FakeMeter()
    meter.bound(160 * MIB)
    async with _warm_up(FakeRecognizer(before=meter.hunger(1), meter=meter), cap_mib=160) as (warm_up, _):
        with pytest.raises(CapTooSmall) as failure:
            await warm_up.run((1,))
    assert isinstance(failure.value.__cause__, MemoryLimit)


async def test_graphs_that_find_no_room_stop_the_start_and_name_a_cap() -> None:
    """As the noise does."""

    class Full(FakeRecognizer):
        def capture(self, rows: int, samples: int) -> None:
            raise MemoryError(rows, samples)

    async with _warm_up(Full(), cap_mib=900) as (warm_up, _):
        with pytest.raises(CapTooSmall, match="SEAT_MEM_CAP_MIB=900 cannot hold"):
            await warm_up.capture(16)


@pytest.mark.parametrize("mode", ["no_while_loops", "off"])
async def test_graphs_that_are_not_in_force_stop_the_start(mode: str) -> None:
    """NeMo falls back without a word; a setting that is echoed and does nothing costs its operator hours."""
    recognizer = FakeRecognizer()
    recognizer.graphs = mode
    async with _warm_up(recognizer) as (warm_up, _):
        with pytest.raises(GraphsUnavailable, match=f"'{mode}'"):
            await warm_up.capture(16)


async def test_graphs_in_force_are_told() -> None:
    """With the largest batch and the longest window that they hold."""
    recognizer = FakeRecognizer()
    recognizer.graphs = "full_graph"
    with capture_logs() as events:
        async with _warm_up(recognizer) as (warm_up, _):
            await warm_up.capture(16)
    (captured,) = events
    assert recognizer.captured == [(16, 30 * SAMPLE_RATE)]
    assert (captured["mode"], captured["batch"], captured["longest_s"]) == ("full_graph", 16, 30)
