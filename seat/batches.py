"""Choose which windows run together, and what to try when they cannot. Knows lengths and order; runs nothing."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
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
    peak_nbytes: int
    """Bytes that the process took at most during one of its batches."""
    rest_nbytes: int
    """Bytes that the process took after the last of them."""

    @classmethod
    def of(cls, results: Sequence[tuple[Recognition, Ran]], submitted_at: float) -> Heard:
        """Sum up the windows of a request that was submitted at a time of the monotonic clock."""
        batches = [ran for _, ran in results]
        began_at, last = min(ran.began_at for ran in batches), max(batches, key=lambda ran: ran.ended_at)
        return cls(
            recognitions=tuple(recognition for recognition, _ in results),
            queue_s=began_at - submitted_at,
            inference_s=last.ended_at - began_at,
            batch_sizes=tuple(ran.size for ran in batches),
            peak_nbytes=max(ran.footprint.peak for ran in batches),
            rest_nbytes=last.footprint.rest_after,
        )


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's place in the queue."""

    arrival: int
    """Its place among all requests, from 1."""
    long: bool
    """Whether it has more than one window."""
    deadline_at: float
    """When its answer is too late, on the monotonic clock."""
    served: int = 0
    """Windows of it that have run, counted from those of the least served file that waited when it came: who comes
    later has nothing to catch up with."""


@dataclass(slots=True, eq=False)
class Entry:
    """One window that waits."""

    waveform: Waveform
    """What the encoder hears."""
    turn: int
    """The window's place within its request, from 0."""
    ticket: Ticket
    """The request's place in the queue."""
    origin: Origin
    """The request's span."""
    future: asyncio.Future[tuple[Recognition, Ran]]
    """Resolves to the recognition, and how its batch went."""
    chunk: Chunk | None = None
    """Which stretch is decoded and from where; None for the whole waveform, from the beginning."""
    carried: object | None = None
    """What the decoder knows at the chunk's end, once the future is resolved."""


def choose_batch(
    waiting: Sequence[Entry], fits: Callable[[int, Entry], bool], most: int | None = None, *, long_leads: bool = False
) -> list[Entry]:
    """Choose what runs next.

    Short requests go by their deadlines. Files of more than one window take turns, the least served first, as in fair
    queueing. Where both kinds wait, short requests lead, but not every batch: whoever calls this sees to it that a file
    gets its turn. Others of similar length fill the batch in the same order.

    Args:
        waiting: At least one entry, in any order.
        fits: Whether a batch of so many samples, padding included, may run with that entry in its lead; not asked for a
            lone window.
        most: Windows that a batch may hold; None for any number.
        long_leads: Whether a file's window leads where one waits; else a short request does.
    """
    first, *others = _in_order(waiting, long_leads=long_leads)
    batch = [first]
    longest = shortest = len(first.waveform)
    for entry in others:
        if len(batch) == most:
            break
        length = len(entry.waveform)
        longer, shorter = max(longest, length), min(shortest, length)
        if longer <= PADDING_LIMIT * shorter and fits(longer * (len(batch) + 1), first):
            batch.append(entry)
            longest, shortest = longer, shorter
    return batch


def _in_order(waiting: Sequence[Entry], *, long_leads: bool) -> list[Entry]:
    ahead: Counter[Ticket] = Counter()
    keys: dict[Entry, tuple[float, ...]] = {}
    for entry in sorted(waiting, key=lambda entry: entry.turn):
        ticket = entry.ticket
        urgency = ticket.served + ahead[ticket] if ticket.long else ticket.deadline_at
        keys[entry] = (ticket.long != long_leads, urgency, ticket.arrival)
        ahead[ticket] += 1
    return sorted(waiting, key=keys.__getitem__)


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
