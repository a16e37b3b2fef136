"""Choose which windows run together, and what to try when they cannot. Knows lengths and order; runs nothing."""

from __future__ import annotations

import asyncio
import enum
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
    def of(cls, results: Sequence[tuple[Recognition, Ran]], submitted_at: float, second: Sequence[Ran] = ()) -> Heard:
        """Sum up the windows of a request that was submitted at a time of the monotonic clock.

        Args:
            results: One for each window.
            submitted_at: When it was.
            second: Batches of windows that were tried once more.
        """
        batches = [ran for _, ran in results]
        began_at, last = min(ran.began_at for ran in batches), max((*batches, *second), key=lambda ran: ran.ended_at)
        return cls(
            recognitions=tuple(recognition for recognition, _ in results),
            queue_s=began_at - submitted_at,
            inference_s=last.ended_at - began_at,
            batch_sizes=tuple(ran.size for ran in batches),
            peak_nbytes=max(ran.footprint.peak for ran in (*batches, *second)),
            rest_nbytes=last.footprint.rest_after,
        )


class Kind(enum.Enum):
    """What a request is to the queue."""

    CLIP = "clip"
    """One window, for which somebody waits."""
    LIVE = "live"
    """One chunk of a stream that never ends; the next one comes when this one has been heard."""
    FILE = "file"
    """More than one window."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's place in the queue."""

    arrival: int
    """Its place among all requests, from 1."""
    kind: Kind
    """What it is."""
    deadline_at: float
    """When its answer is too late, on the monotonic clock."""
    served: int = 0
    """Samples of it that have run, counted from those of the file whose turn it was when it came: who comes later has
    nothing to catch up with."""


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
    waiting: Sequence[Entry],
    fits: Callable[[int, Entry], bool],
    lead: Kind,
    *,
    most: int | None = None,
    eldest: bool = False,
) -> list[Entry]:
    """Choose what runs next, where it has been said whose turn it is.

    Clips and chunks go by their deadlines. Files take turns by the audio that has run, the least served first: fair as
    a deficit round robin, whatever the windows' lengths. Others of similar length fill the batch, first those of the
    same kind, then clips and chunks, then files.

    Args:
        waiting: At least one entry of the kind that leads, in any order.
        fits: Whether a batch of so many samples, padding included, may run with that entry in its lead; not asked for a
            lone window.
        lead: The kind of the first window.
        most: Windows that a batch may hold; None for any number.
        eldest: Whether the clip that leads is the one that came first, not the one with the earliest deadline.
    """
    first, *others = _in_order(waiting, lead)
    if eldest and lead is Kind.CLIP:
        others = [first, *others]
        first = min((entry for entry in others if entry.ticket.kind is lead), key=lambda entry: entry.ticket.arrival)
        others.remove(first)
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


def _in_order(waiting: Sequence[Entry], lead: Kind) -> list[Entry]:
    ahead: Counter[Ticket] = Counter()
    keys: dict[Entry, tuple[float, ...]] = {}
    for entry in sorted(waiting, key=lambda entry: entry.turn):
        ticket = entry.ticket
        file = ticket.kind is Kind.FILE
        urgency = ticket.served + ahead[ticket] if file else ticket.deadline_at
        keys[entry] = (ticket.kind is not lead, file, urgency, ticket.arrival, entry.turn)
        ahead[ticket] += len(entry.waveform)
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
