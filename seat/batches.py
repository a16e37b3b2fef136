"""Choose which windows run together, and what to try when they cannot. Knows lengths and order; runs nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seat.memory import Footprint
from seat.recognizer import Chunk, Recognition, Waveform
from seat.telemetry import Origin

PADDING_LIMIT = 2.0
"""The longest window of a batch is at most this many times the shortest: padding is computed like speech."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How one batch went."""

    size: int
    """Windows in it."""
    began_at: float
    """When it began, on the monotonic clock, in seconds."""
    ended_at: float
    """When it ended."""
    footprint: Footprint
    """What it took."""


@dataclass(slots=True, eq=False)
class Entry:
    """One window that waits."""

    waveform: Waveform
    """What the encoder hears."""
    turn: int
    """The window's place within its request: others' first windows go before anyone's second."""
    arrival: int
    """The request's place among all requests."""
    origin: Origin
    """The request's span."""
    future: asyncio.Future[tuple[Recognition, Ran]]
    """Resolves to the recognition, and how its batch went."""
    chunk: Chunk | None = None
    """Which stretch is decoded and from where; None for the whole waveform, from the beginning."""
    carried: object | None = None
    """What the decoder knows at the chunk's end, once the future is resolved."""


def choose_batch(waiting: Sequence[Entry], fits: Callable[[int], bool], most: int | None = None) -> list[Entry]:
    """Choose what runs next.

    The most urgent window goes: the earliest turn, then the earliest arrival, so that a short request waits for one
    batch at most while a long file is in work, and long files take turns. Others of similar length fill the batch in
    the same order.

    Args:
        waiting: At least one entry, in any order.
        fits: Whether a batch of so many samples may run, padding included; not asked for a lone window.
        most: Windows that a batch may hold; None for any number.
    """
    first, *others = sorted(waiting, key=lambda entry: (entry.turn, entry.arrival))
    batch = [first]
    longest = shortest = len(first.waveform)
    for entry in others:
        if len(batch) == most:
            break
        length = len(entry.waveform)
        longer, shorter = max(longest, length), min(shortest, length)
        if longer <= PADDING_LIMIT * shorter and fits(longer * (len(batch) + 1)):
            batch.append(entry)
            longest, shortest = longer, shorter
    return batch


def smaller(batch: list[Entry], tries: int) -> list[list[Entry]]:
    """What to try after a batch ran out of memory: its halves (or itself again, where it is one), then each alone.

    Args:
        batch: What ran.
        tries: How often it, or what it is a part of, had failed before.

    Returns:
        Batches in order; none where everything was tried.
    """
    if tries == 0:
        half = math.ceil(len(batch) / 2)
        return [part for part in (batch[:half], batch[half:]) if part]
    return [[entry] for entry in batch] if len(batch) > 1 else []
