"""Open live sessions, bound them, and end them when the seat stops. Knows numbers and limits; no audio, no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from seat.batches import Ran
from seat.errors import Stalled, TooManySessions
from seat.live import LiveSession
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Vocabulary
from seat.scheduler import Scheduler
from seat.telemetry import speaking
from seat.turn import Event
from seat.vad import Turns
from seat.windows import LiveWindow


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamLimits:
    """What live sessions may take."""

    window_s: tuple[float, float, float]
    """Left context, chunk and right context of a live window, in seconds."""
    sessions: int
    """Sessions open at the same time."""
    session_s: float | None
    """Seconds that one may last; None for no limit."""
    waiting_s: float
    """Seconds of its audio that may wait to be heard."""
    stall_s: float
    """Seconds in which a chunk must be heard."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamStatistics:
    """What is open, and what has been."""

    open: int
    """Sessions that are open."""
    opened: int
    """Sessions that have been opened."""
    audio_s: float
    """Seconds of audio that came in those that have ended."""
    chunks: int
    """Windows that were computed for them."""
    waiting_s: float
    """Seconds of audio that came in those that are open, and have not been heard."""


class Streams:
    """The live sessions of one seat."""

    def __init__(self, scheduler: Scheduler, vocabulary: Vocabulary, limits: StreamLimits) -> None:
        self._scheduler = scheduler
        self.vocabulary = vocabulary
        """How tokens become words."""
        self.limits = limits
        """What they may take."""
        self.window = LiveWindow.of_seconds(limits.window_s, round(vocabulary.frame_s * SAMPLE_RATE))
        """What is heard at once, in whole frames."""
        self.draining = asyncio.Event()
        """Set when the seat stops: sessions end by themselves then."""
        self._empty = asyncio.Event()
        self._empty.set()
        self._sessions: set[LiveSession] = set()
        self._opened = self._chunks = 0
        self._audio_s = 0.0

    def statistics(self) -> StreamStatistics:
        """What is open right now, and what has been; may be called on any thread."""
        sessions = tuple(self._sessions)
        return StreamStatistics(
            open=len(sessions),
            opened=self._opened,
            audio_s=self._audio_s,
            chunks=self._chunks,
            waiting_s=sum(session.waiting_s for session in sessions),
        )

    async def drain(self) -> None:
        """Have all sessions come to their end, and wait for it."""
        self.draining.set()
        await self._empty.wait()

    @contextmanager
    def session(self, emit: Callable[[Event], Awaitable[None]], turns: Turns | None) -> Iterator[LiveSession]:
        """Open a session for as long as the block lasts; arguments as for `LiveSession`.

        Raises:
            TooManySessions: As many are open as may be.
        """
        if len(self._sessions) >= self.limits.sessions:
            raise TooManySessions(limit=self.limits.sessions)
        session = LiveSession(
            self._heard,
            self.vocabulary,
            self.window,
            emit,
            turns=turns,
            most_waiting_s=self.limits.waiting_s,
        )
        self._sessions.add(session)
        self._opened += 1
        self._empty.clear()
        try:
            with speaking():
                yield session
        finally:
            self._sessions.remove(session)
            if not self._sessions:
                self._empty.set()
            self._audio_s += session.tally.audio_s
            self._chunks += session.tally.chunks

    async def _heard(self, chunk: Chunk, deadline_at: float) -> tuple[Recognition, object, Ran]:
        """As `Scheduler.proceed`, which waits for a call that hangs; who speaks hears of that."""
        try:
            async with asyncio.timeout(self.limits.stall_s):
                return await self._scheduler.proceed(chunk, deadline_at)
        except TimeoutError as fault:
            raise Stalled from fault
