"""Run work under a memory cap: predict, measure, give back, refuse. Knows bytes and seconds; no model, no torch.

The same rules hold on a card and on a CPU; what differs is the `seat.meter.Meter`.
"""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from seat.caps import ASSUMED_NBYTES_PER_S, no_room
from seat.errors import CannotStart, ExceedsMemory, MemoryLimit
from seat.faults import chain, is_fatal, is_shortage
from seat.meter import MIB, Allocator, Meter, Outside

Result = TypeVar("Result")

Returns = Literal["always", "when short", "never"]
"""When memory that a call leaves unused is given back: after every call, or where the next would not fit, or not at
all, because a captured graph keeps its addresses."""

EASING: Final = 0.1
"""Weight of a new reading below the table's: one cheap batch is no proof, one dear batch is."""

REMEASURED_EVERY: Final = 256
"""Calls after which what lies outside the allocator is measured again: kernels are loaded when they are first used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Footprint:
    """What one batch took; all in bytes."""

    rest_before: int
    """What the process took before it."""
    peak: int
    """What it took at most."""
    rest_after: int
    """What was left once unused memory was given back."""
    allocator: Allocator | None
    """The allocator's own peaks; None on a CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryStatistics:
    """What is promised and what was measured; all in bytes."""

    cap: int | None
    """What the process may take; None for no limit."""
    rest: int
    """What it took after the last batch."""
    peak: int
    """What it took at most since it was ready."""
    outside: Outside
    """What lies outside torch's allocator, and how that is known."""
    refusals: int
    """Batches that were not run, or not to their end, for want of memory."""
    nbytes_per_s: int
    """What a second of padded audio takes, as the warm-up measured it on the longest window."""


class Costs:
    """Bytes per second of padded audio, for each power of two of seconds. Written on one thread, read on any."""

    def __init__(self) -> None:
        self._rates: dict[int, float] = {}

    def predict(self, padded_s: float) -> float:
        """Bytes that so many seconds take, by the nearest length that was seen; 0 before any was."""
        rates, wanted = self._rates, _length_class(padded_s)
        nearest = min(rates, key=lambda known: (abs(known - wanted), -known), default=None)
        return 0.0 if nearest is None else rates[nearest] * padded_s

    def observe(self, padded_s: float, nbytes: int) -> None:
        """Learn what so many seconds took: at once where it is more than the table says, slowly where it is less."""
        rate, known = nbytes / padded_s, self._rates.get(_length_class(padded_s))
        if known is not None and rate < known:
            rate = known + EASING * (rate - known)
        self._rates = {**self._rates, _length_class(padded_s): rate}

    def doubt(self, padded_s: float, least_rate: float) -> None:
        """Come half-way down to a rate. A refusal measures nothing, so one odd reading must not refuse for ever."""
        rate = self.predict(padded_s) / padded_s
        if rate > least_rate:
            self._rates = {**self._rates, _length_class(padded_s): (rate + least_rate) / 2}


def _length_class(padded_s: float) -> int:
    return math.ceil(math.log2(max(padded_s, 1.0)))


class Governor:
    """Runs calls under the cap, one at a time, on the GPU thread; only the questions may be asked on others.

    The questions are `fits`, `admit` and `statistics`, and, between two calls, `last`.
    """

    def __init__(self, meter: Meter, *, cap: int | None, returns: Returns) -> None:
        """Begin unsettled: nothing is refused until `settle`, so that a warm-up learns.

        Args:
            meter: What counts.
            cap: Bytes that the process may take; None for no limit.
            returns: When unused memory is given back.
        """
        self._meter, self._cap, self._returns = meter, cap, returns
        self._costs = Costs()
        self._floor = self._rest = self._base = self._highest = 0
        self._settled_s, self._settled_rate = 0.0, 0.0
        self._refusals = self._runs = 0
        self.last = Footprint(rest_before=0, peak=0, rest_after=0, allocator=None)
        """What the last call took, also where it failed."""

    def run(self, padded_s: float, call: Callable[[], Result]) -> Result:
        """Run a call that computes so many seconds of padded audio.

        Raises:
            MemoryLimit: It was predicted not to fit, could not allocate, or took more than the cap.
        """
        rest_before, base = self._make_room(padded_s)
        self._meter.reset_peak()
        try:
            result = call()
        except Exception as fault:
            if is_fatal(fault):
                raise
            short = is_shortage(fault)
            for link in chain(fault):  # the frames of the failed call still hold its tensors
                traceback.clear_frames(link.__traceback__)
            if short:
                gc.collect()
            self._close(rest_before, short=short)
            if not short:
                raise
            self._refusals += 1
            raise MemoryLimit from fault
        footprint = self._close(rest_before)
        top = footprint.peak if self._returns == "always" else self._meter.held_peak()
        self._costs.observe(padded_s, max(0, top - base))
        if self._settled_s and self._cap is not None and footprint.peak > self._cap:
            self._refusals += 1
            raise MemoryLimit
        return result

    def settle(self, longest_s: float) -> None:
        """End the warm-up: bound the allocator for good, and see that the cap holds the longest window.

        Raises:
            CapTooSmall: It does not.
        """
        self._give_back(short=True)
        self._meter.bound(self._cap)
        self._look()
        self._floor = self._base
        self._settled_s, self._settled_rate = longest_s, self._costs.predict(longest_s) / longest_s
        need = self._floor + self._settled_rate * longest_s
        if self._cap is not None and need > self._cap:
            raise self._no_room(need, free=None)
        self._highest = max(self._highest, self._rest)

    def shortfall(self, longest_s: float) -> CannotStart:
        """The refusal where a warm-up ran out of memory, with an estimate of what would have been enough."""
        self._settled_s = longest_s
        rate = max(ASSUMED_NBYTES_PER_S, self._costs.predict(longest_s) / longest_s)
        return self._no_room(self._meter.used() + rate * longest_s, free=self._meter.free())

    def recount(self) -> None:
        """Give back what is unused, and measure all that remains; for when something other than `run` changed it."""
        self._give_back(short=True)
        self._meter.remeasure()
        self._look()

    def fits(self, padded_s: float) -> bool:
        """Whether so many seconds are predicted to stay under the cap."""
        return self._cap is None or self._base + self._costs.predict(padded_s) <= self._cap

    def admit(self, audio_s: float) -> None:
        """Let in what could ever be recognized at once: as much as the warm-up ran, or what the cap has room for.

        Raises:
            ExceedsMemory: It could not.
        """
        need = self._settled_rate * audio_s
        if self._cap is not None and audio_s > self._settled_s and self._floor + need > self._cap:
            room = self._cap - self._floor
            raise ExceedsMemory(audio_s=audio_s, need_mib=math.ceil(need / MIB), room_mib=room // MIB)

    def statistics(self) -> MemoryStatistics:
        """What is promised and what was measured."""
        return MemoryStatistics(
            cap=self._cap,
            rest=self._rest,
            peak=self._highest,
            outside=self._meter.outside,
            refusals=self._refusals,
            nbytes_per_s=round(self._settled_rate),
        )

    def _make_room(self, padded_s: float) -> tuple[int, int]:
        """Bytes in use before a call that is predicted to fit: all of them, and those that it could not have."""
        cost, cap = self._costs.predict(padded_s), self._cap if self._settled_s else None
        self._look()
        if cap is not None and self._base + cost > cap:
            gc.collect()  # a request that failed holds its audio in a circle of error, traceback and frame
            self._give_back(short=True)
        rest = self._rest
        self._highest = max(self._highest, rest)
        self.last = Footprint(rest_before=rest, peak=rest, rest_after=rest, allocator=None)
        if cap is not None and self._base + cost > cap:
            self._refusals += 1
            self._costs.doubt(padded_s, self._settled_rate)
            raise MemoryLimit
        return rest, self._base

    def _close(self, rest_before: int, *, short: bool = False) -> Footprint:
        self._runs += 1
        if self._runs % REMEASURED_EVERY == 0:
            self._meter.remeasure()
        peak, allocator = max(rest_before, self._meter.peak()), self._meter.allocator()
        self._give_back(short=short)
        self._highest = max(self._highest, peak)
        self.last = Footprint(rest_before=rest_before, peak=peak, rest_after=self._rest, allocator=allocator)
        return self.last

    def _give_back(self, *, short: bool = False) -> None:
        if self._returns == "always" or (self._returns == "when short" and short):
            self._meter.release()
        self._look()

    def _look(self) -> None:
        """Read what is taken, and what of it no call could have: what is kept from one to the next serves again."""
        self._rest = self._meter.used()
        self._base = self._rest if self._returns == "always" else self._meter.held()

    def _no_room(self, need: float, *, free: int | None) -> CannotStart:
        what = f"the model at work on {self._settled_s:g} seconds of audio"
        return no_room(cap=self._cap, used=self._meter.used(), free=free, need=need, what=what)
