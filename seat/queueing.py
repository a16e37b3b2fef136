"""Hold the windows that wait, say who may join them, and choose who runs next. Knows limits and order; runs nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from seat.batches import Entry, Ticket, choose_batch
from seat.errors import QueueFull
from seat.recognizer import SAMPLE_RATE, Waveform

LONGEST_RETRY_AFTER_S = 120
"""The openai SDK does not retry after a longer time."""

FIRST_GUESS = 0.05
"""Seconds of computing for a second of audio, before any was computed; that of a processor."""

SHORTS_A_TURN = 3
"""Batches in a row that short requests may lead while a file waits: a clip now and then never waits for a second batch,
and a file beside ever so many clips gets every fourth."""

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
        self._led_by_short = 0  # batches in a row
        self._to_come = 0  # samples
        self._seconds_per_audio_s = FIRST_GUESS
        self._learnt = False

    def __bool__(self) -> bool:
        return bool(self._entries)

    def statistics(self) -> QueueStatistics:
        """What waits right now."""
        return QueueStatistics(
            requests=len({entry.ticket.arrival for entry in self._entries}),
            windows=len(self._entries),
            audio_s=_audio_s([entry.waveform for entry in self._entries]) + self._to_come / SAMPLE_RATE,
        )

    def admit(self, waveforms: Sequence[Waveform], deadline_at: float) -> Ticket:
        """Let a request in, and give it its place.

        Raises:
            QueueFull: As much waits as may wait, or so much that the answer would come too late.
        """
        self.refuse(waveforms, deadline_at)
        return self.place(long=len(waveforms) > 1, deadline_at=deadline_at)

    def refuse(self, waveforms: Sequence[Waveform], deadline_at: float) -> None:
        """Refuse what must not wait, in its audio or, with no waveforms yet, whatever they will be.

        Raises:
            QueueFull: As for `admit`.
        """
        now = self.statistics()
        late_s = self._clock() + self._predicted_wait_s(long=len(waveforms) > 1) - deadline_at
        full = now.audio_s + _audio_s(waveforms) > self._limits.audio_s
        if now.requests and (full or late_s > 0):
            passes_s = max(late_s, now.audio_s * self._seconds_per_audio_s if full else 0.0)
            retry_after_s = min(LONGEST_RETRY_AFTER_S, max(1, math.ceil(passes_s)))
            raise QueueFull(waiting=f"{now.audio_s:.0f} seconds of audio", retry_after_s=retry_after_s)

    def place(self, *, long: bool, deadline_at: float) -> Ticket:
        """Give a place without asking how much waits: for whom another bound holds."""
        served = min((entry.ticket.served for entry in self._entries if entry.ticket.long), default=0)
        self._arrivals += 1
        return Ticket(arrival=self._arrivals, long=long, deadline_at=deadline_at, served=served)

    @contextmanager
    def reserved(self, waveforms: Sequence[Waveform]) -> Iterator[Callable[[Waveform], None]]:
        """Count windows of an admitted request that come one after the other; call what is given as each one comes."""
        to_come = sum(map(len, waveforms))
        self._to_come += to_come

        def comes(waveform: Waveform) -> None:
            nonlocal to_come
            self._to_come -= len(waveform)
            to_come -= len(waveform)

        try:
            yield comes
        finally:
            self._to_come -= to_come

    def add(self, entries: Sequence[Entry]) -> None:
        """Let windows of an admitted request wait."""
        self._entries += entries

    def forget_done(self) -> None:
        """Drop windows that nobody waits for any more."""
        self._entries = [entry for entry in self._entries if not entry.future.done()]

    def choose(self) -> list[Entry]:
        """What would run next, as long as nobody comes or goes; there must be something in the queue."""
        return choose_batch(
            self._entries, self._may_run, self._limits.windows, long_leads=self._led_by_short >= SHORTS_A_TURN
        )

    def take(self, batch: Sequence[Entry]) -> None:
        """Move what runs now out of the queue."""
        self._led_by_short = 0 if batch[0].ticket.long else self._led_by_short + 1
        for entry in batch:
            entry.ticket.served += 1
        chosen = set(map(id, batch))
        self._entries = [entry for entry in self._entries if id(entry) not in chosen]

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
        quick = not leader.ticket.long or padded_s * self._seconds_per_audio_s <= LONGEST_TURN_S
        return quick and padded_s <= self._limits.batch_s and self._fits(padded_s)

    def _predicted_wait_s(self, *, long: bool) -> float:
        """Seconds until a request would begin to run: a file waits for all, a clip for clips and some files' turns."""
        ahead = [entry for entry in self._entries if long or not entry.ticket.long]
        share = 1 if long or len(ahead) == len(self._entries) else 1 + 1 / SHORTS_A_TURN
        return share * self._seconds_per_audio_s * _audio_s([entry.waveform for entry in ahead])


def _audio_s(waveforms: Sequence[Waveform]) -> float:
    return sum(map(len, waveforms)) / SAMPLE_RATE
