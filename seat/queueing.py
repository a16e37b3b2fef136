"""Hold the windows that wait, say who may join them, and choose who runs next. Knows limits and order; runs nothing."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from seat.batches import Entry, Kind, Ticket, choose_batch
from seat.errors import QueueFull
from seat.recognizer import SAMPLE_RATE, Waveform

LONGEST_RETRY_AFTER_S = 120
"""The openai SDK does not retry after a longer time."""

FIRST_GUESS = 0.05
"""Seconds of computing for a second of audio, before any was computed; that of a processor."""

SHORTS_A_TURN = 3
"""Batches in a row that clips and live chunks may lead while a file waits: a clip now and then never waits for a second
batch, and a file beside ever so many clips gets every fourth."""

LONGEST_TURN_S = 0.1
"""Seconds that a file's batch may be predicted to compute, as a clip that comes meanwhile waits for it. On a processor
this is a window by itself, which gains nothing from company; on a card it hardly ever binds."""

EASING = 0.1
"""Weight of a batch's own figure in what is learnt from it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """How much may wait, and how much may run at once."""

    audio_s: float
    """Seconds of audio that may wait; one request always may."""
    batch_s: float
    """Seconds of audio in one batch, padding included; one window always fits. Memory may allow less."""
    windows: int | None = None
    """Windows in one batch; None for as many as its seconds allow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueStatistics:
    """What waits."""

    requests: int
    """Requests with at least one window that has not begun."""
    windows: int
    """Windows that have not begun."""
    audio_s: float
    """Seconds of audio in them."""


class Rotation:
    """Says whose turn it is to lead a batch: a clip's, if somebody else has not been passed over for too long.

    Live chunks are passed over by one clip, files by `SHORTS_A_TURN` of both. Among clips the one with the earliest
    deadline leads; where another came first, that one leads the next time. So nobody starves.
    """

    def __init__(self) -> None:
        self._files_passed_over = 0
        self._chunk_passed_over = False
        self.eldest = False
        """Whether the next clip to lead is the one that came first."""

    def lead(self, waiting: Collection[Kind]) -> Kind:
        """Whose turn it is, of the kinds that wait."""
        if Kind.FILE in waiting and (len(waiting) == 1 or self._files_passed_over >= SHORTS_A_TURN):
            return Kind.FILE
        if Kind.LIVE in waiting and (Kind.CLIP not in waiting or self._chunk_passed_over):
            return Kind.LIVE
        return Kind.CLIP

    def led(self, by: Ticket, left: Collection[Ticket]) -> None:
        """Take note of who has led a batch, and who was left to wait."""
        kinds = {ticket.kind for ticket in left}
        if by.kind is Kind.FILE:
            self._files_passed_over = 0
            return
        self._files_passed_over = self._files_passed_over + 1 if Kind.FILE in kinds else 0
        self._chunk_passed_over = by.kind is Kind.CLIP and Kind.LIVE in kinds
        if by.kind is Kind.CLIP:
            self.eldest = any(ticket.kind is Kind.CLIP and ticket.arrival < by.arrival for ticket in left)


class Queue:
    """Windows of all requests, in no order: the order is made when the next batch is chosen."""

    def __init__(
        self, limits: QueueLimits, fits: Callable[[float], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin empty.

        Args:
            limits: How much may wait and run.
            fits: Whether so many seconds of padded audio are predicted to fit the memory.
            clock: What deadlines are told by, in seconds.
        """
        self._limits, self._fits, self._clock = limits, fits, clock
        self._entries: list[Entry] = []
        self._arrivals = 0
        self._rotation = Rotation()
        self._turn_at = 0
        """What the file whose turn it was last had been served by then."""
        self._to_come: Counter[Ticket] = Counter()
        """Samples of files whose windows come one after the other."""
        self._seconds_per_audio_s = FIRST_GUESS
        self._learnt = False

    def __bool__(self) -> bool:
        return bool(self._entries)

    def statistics(self) -> QueueStatistics:
        """What waits right now."""
        return QueueStatistics(
            requests=len({entry.ticket for entry in self._entries} | self._to_come.keys()),
            windows=len(self._entries),
            audio_s=sum(self._waiting_s().values()),
        )

    def admit(self, waveforms: Sequence[Waveform], deadline_at: float) -> Ticket:
        """Let a request in, and give it its place.

        Raises:
            QueueFull: As much waits as may wait, or so much that the answer would come too late.
        """
        self.refuse(waveforms, deadline_at)
        return self.place(Kind.FILE if len(waveforms) > 1 else Kind.CLIP, deadline_at)

    def refuse(self, waveforms: Sequence[Waveform], deadline_at: float) -> None:
        """Refuse what must not wait, in its audio or, with no waveforms yet, even were it the shortest clip.

        Raises:
            QueueFull: As for `admit`.
        """
        own_s, file = _audio_s(waveforms), len(waveforms) > 1
        now, before_s = self.statistics(), self._before_s(own_s, deadline_at, file=file)
        late_s = self._clock() + before_s * self._seconds_per_audio_s - deadline_at
        excess_s = min(now.audio_s, now.audio_s + own_s - self._limits.audio_s)
        if excess_s > 0 or late_s > 0:
            passes_s = max(late_s, excess_s * self._seconds_per_audio_s)
            retry_after_s = min(LONGEST_RETRY_AFTER_S, max(1, math.ceil(passes_s)))
            raise QueueFull(waiting=f"{now.audio_s:.0f} seconds of audio", retry_after_s=retry_after_s)

    def place(self, kind: Kind, deadline_at: float) -> Ticket:
        """Give a place without asking how much waits: for whom another bound holds."""
        self._arrivals += 1
        return Ticket(arrival=self._arrivals, kind=kind, deadline_at=deadline_at, served=self._turn_at)

    @contextmanager
    def reserved(self, ticket: Ticket, waveforms: Sequence[Waveform]) -> Iterator[Callable[[Waveform], None]]:
        """Count windows of an admitted request that come one after the other; call what is given as each one comes."""
        self._to_come[ticket] = sum(map(len, waveforms))

        def comes(waveform: Waveform) -> None:
            self._to_come[ticket] -= len(waveform)
            if not self._to_come[ticket]:
                del self._to_come[ticket]

        try:
            yield comes
        finally:
            del self._to_come[ticket]

    def add(self, entries: Sequence[Entry]) -> None:
        """Let windows of an admitted request wait."""
        self._entries += entries

    def forget_done(self) -> None:
        """Drop windows that nobody waits for any more."""
        self._entries = [entry for entry in self._entries if not entry.future.done()]

    def choose(self) -> list[Entry]:
        """What would run next, as long as nobody comes or goes; there must be something in the queue."""
        return choose_batch(
            self._entries,
            self._may_run,
            self._rotation.lead({entry.ticket.kind for entry in self._entries}),
            most=self._limits.windows,
            eldest=self._rotation.eldest,
        )

    def take(self, batch: Sequence[Entry]) -> None:
        """Move what runs now out of the queue."""
        leader, chosen = batch[0].ticket, set(batch)
        self._entries = [entry for entry in self._entries if entry not in chosen]
        self._rotation.led(leader, {entry.ticket for entry in self._entries})
        if leader.kind is Kind.FILE:
            self._turn_at = max(self._turn_at, leader.served)
        for entry in batch:
            entry.ticket.served += len(entry.waveform)

    def take_all(self) -> list[Entry]:
        """Empty the queue."""
        entries, self._entries = self._entries, []
        return entries

    def learn(self, seconds: float, audio_s: float) -> None:
        """Take in how long a batch took, for predictions; the first one counts in full."""
        weight, self._learnt = EASING if self._learnt else 1.0, True
        self._seconds_per_audio_s += weight * (seconds / audio_s - self._seconds_per_audio_s)

    def _may_run(self, padded_samples: int, leader: Entry) -> bool:
        padded_s = padded_samples / SAMPLE_RATE
        quick = leader.ticket.kind is not Kind.FILE or padded_s * self._seconds_per_audio_s <= LONGEST_TURN_S
        return quick and padded_s <= self._limits.batch_s and self._fits(padded_s)

    def _waiting_s(self) -> dict[Ticket, float]:
        """Seconds of audio that wait, of each request."""
        waiting = Counter(self._to_come)
        for entry in self._entries:
            waiting[entry.ticket] += len(entry.waveform)
        return {ticket: samples / SAMPLE_RATE for ticket, samples in waiting.items()}

    def _before_s(self, own_s: float, deadline_at: float, *, file: bool) -> float:
        """Seconds of audio that will run before a request's answer, of what waits now.

        A file waits for all clips and chunks, and for as much of each other file as it has itself. A clip waits for
        those with earlier deadlines, for as much of others that came first and of chunks, and for the turns of files.
        """
        waiting = self._waiting_s().items()
        clips = [(ticket.deadline_at, audio_s) for ticket, audio_s in waiting if ticket.kind is Kind.CLIP]
        files = [audio_s for ticket, audio_s in waiting if ticket.kind is Kind.FILE]
        clips_s = sum(audio_s for _, audio_s in clips)
        live_s = sum(audio_s for ticket, audio_s in waiting if ticket.kind is Kind.LIVE)
        if file:
            return clips_s + live_s + sum(min(audio_s, own_s) for audio_s in files)
        urgent_s = sum(audio_s for until, audio_s in clips if until <= deadline_at)
        turns = 1 + 1 / SHORTS_A_TURN if files else 1
        return turns * (urgent_s + min(urgent_s, clips_s - urgent_s) + min(urgent_s, live_s))


def _audio_s(waveforms: Sequence[Waveform]) -> float:
    return sum(map(len, waveforms)) / SAMPLE_RATE
