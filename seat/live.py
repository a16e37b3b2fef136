"""Hear a stream that never ends, window by window: [left | chunk | right]. Knows samples, turns and words; no socket.

A turn is what one speaker says between two silences, or between two commits. Its chunks are decoded one after the
other, the decoder going on from each to the next, and a chunk's words are firm: they come out once its right context
has been heard. The words in that context are decoded too, for show. Which windows there are depends on the samples
alone, never on how fast they came.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from seat.batches import Ran
from seat.errors import DeviceLost, SeatError, ShuttingDown
from seat.recognizer import NOTHING, SAMPLE_RATE, Chunk, Recognition, Vocabulary, Waveform
from seat.tape import Tape
from seat.telemetry import count_live_audio
from seat.turn import Event, Failed, Started, Stopped, Whole, Words
from seat.utterance import Utterance, split
from seat.vad import SpeechDetector, Turns
from seat.windows import LiveWindow

BLOCK: Final = SAMPLE_RATE // 2
"""Samples taken in at once: the event loop gets its turn after some tenths of a millisecond."""

PAUSE_S: Final = 1.5
"""Seconds without a word after which a turn ends, where noise keeps the detector from hearing the silence."""

LONG_TURN_S, BREATH_S = 30.0, 0.24
"""A turn longer than this ends at the next such gap between two tokens: somebody who reads aloud never pauses."""

MOST_TURNS: Final = 64
"""Turns that may wait to be heard: one without any audio counts for nothing among the seconds that may wait."""

ONSET_S: Final = 0.2
"""Seconds by which a detector tells late that speech has begun, at most."""

Hear = Callable[[Chunk, float], Awaitable[tuple[Recognition, object, Ran]]]
"""As `Scheduler.proceed`: a chunk, and when its words are late."""


@dataclass(slots=True)
class Tally:
    """What a session took, for its line in the log."""

    audio_s: float = 0.0
    """Seconds of audio that came."""
    heard_s: float = 0.0
    """Seconds that the model was asked about, context not counted; the rest was silence."""
    chunks: int = 0
    """Windows that were computed."""
    finals: int = 0
    """Turns with words."""
    queue_s: float = 0.0
    """Seconds that chunks waited for the GPU thread, in all."""
    worst_lag_s: float = 0.0
    """Seconds from the last sample that a chunk needs to its words, at worst."""


@dataclass(slots=True, eq=False)
class _Turn:
    number: int
    first: int
    head: int
    """First sample that has not been decoded."""
    utterance: Utterance
    stop: int | None = None
    announced: bool = False
    committed: bool = False
    """Whether the client has ended it: it stays one then, however much of it is still to be heard."""
    carried: object | None = None
    last_frame: int | None = None
    due_at: float | None = None
    """When the last sample came that its next window needs."""
    tail: Recognition = field(default=NOTHING)
    """What was heard ahead, for show."""
    fault: SeatError | None = None
    """Why some of it could not be heard."""


class LiveSession:
    """One stream: `append` from one task while `run` works in another."""

    def __init__(  # noqa: PLR0913  what it is made of, each named
        self,
        hear: Hear,
        vocabulary: Vocabulary,
        window: LiveWindow,
        emit: Callable[[Event], Awaitable[None]],
        *,
        turns: Turns | None,
        most_waiting_s: float,
    ) -> None:
        """Begin at the stream's first sample.

        Args:
            hear: Recognizes a chunk.
            vocabulary: How its tokens become words.
            window: What is heard at once.
            emit: Called with what happens; while it does not return, nothing else happens.
            turns: How turns are told apart; None where only `commit` ends one.
            most_waiting_s: Seconds of audio that may wait to be heard; then `append` waits.
        """
        self._hear, self._vocabulary, self._window, self._emit = hear, vocabulary, window, emit
        self._telling = asyncio.Lock()
        self._turns = turns
        self._detector = SpeechDetector(turns) if turns else None
        self._most_waiting_s = most_waiting_s
        self._tape = Tape(window.frame)
        self._open: deque[_Turn] = deque()
        self._spoken_to = 0
        self._count = 0
        self._ended = False
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self.tally = Tally()
        """What it took so far."""
        self.waiting_s = 0.0
        """Seconds of audio that have come since what was heard last; 0 while nobody speaks."""

    @property
    def turn(self) -> int:
        """The number of the turn that the next words belong to, as far as is known."""
        return self._open[-1].number if self._listening else self._count + 1

    @property
    def buffered_s(self) -> float:
        """Seconds of audio that no turn has been ended with."""
        return (self._tape.end - max(self._spoken_to, 0)) / SAMPLE_RATE

    @property
    def _listening(self) -> bool:
        return bool(self._open) and self._open[-1].stop is None

    async def append(self, samples: Waveform) -> None:
        """Take in the next samples, if any; while as much waits to be heard as may wait, wait too."""
        while len(self._open) > MOST_TURNS:
            await self._has_room()
        for first in range(0, len(samples), BLOCK):
            block = samples[first : first + BLOCK]
            while self.waiting_s > self._most_waiting_s:
                await self._has_room()
            if self._detector is None and not self._listening:
                self._begin(self._tape.end)
            self._tape.append(block)
            self.tally.audio_s += len(block) / SAMPLE_RATE
            count_live_audio(len(block) / SAMPLE_RATE)
            for change in self._detector.hear(block) if self._detector else ():
                await self._change(change.at, speaking=change.speaking)
            self._look()
            await asyncio.sleep(0)

    async def _has_room(self) -> None:
        """Wait until something has been heard, or forgotten."""
        self._room.clear()
        await self._room.wait()

    def commit(self) -> int:
        """End the turn here, and begin another; returns its number. What has come so far will be its `Whole`."""
        if not self._listening:
            self._begin(self._tape.end)
        turn = self._open[-1]
        turn.announced = turn.committed = True
        turn.stop = self._spoken_to = self._tape.end
        if self._detector:
            self._detector.restart()
        self._look()
        return turn.number

    def clear(self) -> None:
        """Forget what has come since the last turn ended."""
        if self._listening:
            self._open.pop()
        if self._detector:
            self._detector.restart()
        self._spoken_to = self._tape.end
        self._look()

    def detect(self, turns: Turns | None) -> None:
        """Tell turns apart in another way from here on; one that is under way goes on."""
        if turns != self._turns:
            self._turns = turns
            self._detector = SpeechDetector(turns, self._tape.end, speaking=self._listening) if turns else None

    async def end(self) -> None:
        """No more samples: what has come is heard to its end, and then `run` returns."""
        if self._listening:
            self._open[-1].announced |= self._turns is None
            await self._change(self._tape.end, speaking=False)
        self._ended = True
        self._look()

    async def run(self) -> None:
        """Hear what is due until the stream has ended.

        Raises:
            DeviceLost: The device computes no more.
            ShuttingDown: The seat stops.
        """
        while True:
            while self._open and self._is_due(self._open[0]):
                await self._advance(self._open[0])
                self._look()
            if self._ended and not self._open:
                return
            self._news.clear()
            await self._news.wait()

    def _begin(self, at: int) -> _Turn:
        """Begin a turn on the grid of frames, where no other has been."""
        self._count += 1
        first = at // self._window.frame * self._window.frame
        if first < self._spoken_to:
            first += self._window.frame
        turn = _Turn(number=self._count, first=at, head=first, utterance=Utterance(self._vocabulary))
        self._open.append(turn)
        return turn

    async def _change(self, at: int, *, speaking: bool) -> None:
        """Begin or end a turn where the detector says so."""
        if speaking and not self._listening:
            padding = round(self._turns.padding_s * SAMPLE_RATE) if self._turns else 0
            turn = self._begin(max(at - padding, self._spoken_to, self._tape.start))
            turn.announced = True
            await self._tell(Started(turn=turn.number, at_s=turn.first / SAMPLE_RATE))
        elif not speaking and self._listening:
            turn = self._open[-1]
            turn.stop = self._spoken_to = at
            if turn.announced:
                await self._tell(Stopped(turn=turn.number, at_s=at / SAMPLE_RATE))

    def _look(self) -> None:
        """After anything has changed: forget what nobody needs, and wake who waits."""
        if self._open:
            turn = self._open[0]
            if turn.due_at is None and self._is_due(turn):
                turn.due_at = time.monotonic()
            needed = turn.head
            self.waiting_s = max(0, self._tape.end - turn.head) / SAMPLE_RATE
        else:
            self.waiting_s = 0.0
            padding_s = self._turns.padding_s + ONSET_S if self._turns else 0.0
            needed = self._tape.end - round(padding_s * SAMPLE_RATE)
        self._tape.forget(needed - self._window.left)
        self._news.set()
        self._room.set()

    def _is_due(self, turn: _Turn) -> bool:
        return turn.stop is not None or self._tape.end - turn.head >= self._window.chunk + self._window.right

    async def _advance(self, turn: _Turn) -> None:
        """Hear a turn's next chunk; or the rest, where its end leaves no chunk with all its context."""
        window = self._window
        last = turn.stop is not None and turn.stop - turn.head < window.chunk + window.right
        stop = turn.stop if last and turn.stop is not None else turn.head + window.chunk
        try:
            firm, turn.tail = await self._heard(turn, stop, last=last)
        except (DeviceLost, ShuttingDown):
            raise
        except SeatError as fault:
            if turn in self._open:
                await self._fail(turn, stop, fault, last=last)
            return
        if turn not in self._open:  # cleared meanwhile
            return
        self._note_lag(turn)
        turn.head = stop
        turn.last_frame = firm.frames[-1] if firm.tokens else turn.last_frame
        added = turn.utterance.add(firm)
        if turn.utterance and not turn.announced and self._turns:
            await self._announce(turn, turn.utterance.snapshot().words[0].start_s)
        if turn not in self._open:
            return
        if last:
            await self._finish(turn, added)
        elif self._turns and not turn.committed and self._paused(turn):
            await self._break(turn)
            await self._finish(turn, added)
        elif turn.utterance or turn.tail.tokens:
            await self._tell(self._words(Words, turn, added))

    async def _heard(self, turn: _Turn, stop: int, *, last: bool) -> tuple[Recognition, Recognition]:
        """What is firm in a stretch, and what was heard ahead; frames are counted from the stream's beginning."""
        window = self._window
        end = stop if last else stop + window.right
        if end <= turn.head or self._tape.silent(turn.head, end):
            return NOTHING, NOTHING
        start = max(self._tape.start, turn.head - window.left)
        chunk = Chunk(
            waveform=self._tape.cut(start, end),
            first=(turn.head - start) // window.frame,
            stop=None if last else (stop - start) // window.frame,
            carried=turn.carried,
            ahead=not last,
        )
        submitted_at = time.monotonic()
        due_at = turn.due_at or submitted_at
        heard, turn.carried, ran = await self._hear(chunk, due_at + window.chunk / SAMPLE_RATE)
        self.tally.chunks += 1
        self.tally.heard_s += (stop - turn.head) / SAMPLE_RATE
        self.tally.queue_s += ran.began_at - submitted_at
        return split(heard, chunk.stop, shift=start // window.frame)

    def _paused(self, turn: _Turn) -> bool:
        """Whether the decoder itself has been silent for long enough."""
        if turn.last_frame is None:
            return False
        long = turn.head - turn.first > LONG_TURN_S * SAMPLE_RATE
        silent = turn.head - (turn.last_frame + 1) * self._window.frame
        return silent >= (BREATH_S if long else PAUSE_S) * SAMPLE_RATE

    async def _announce(self, turn: _Turn, at_s: float) -> None:
        """Tell of a turn that the detector does not tell of, and of its end, where that has come already."""
        stop, turn.announced = turn.stop, True
        await self._tell(Started(turn=turn.number, at_s=at_s))
        if stop is not None:
            await self._tell(Stopped(turn=turn.number, at_s=stop / SAMPLE_RATE))

    async def _break(self, turn: _Turn) -> None:
        """End a turn where its decoder stands; what is left of the audio is another's, behind it."""
        self._count += 1
        rest = _Turn(number=self._count, first=turn.head, head=turn.head, utterance=Utterance(self._vocabulary))
        rest.carried, rest.stop = turn.carried, turn.stop
        turn.stop = turn.head
        self._open.insert(1, rest)
        if rest.stop is None:
            await self._tell(Stopped(turn=turn.number, at_s=turn.head / SAMPLE_RATE))

    async def _finish(self, turn: _Turn, added: str) -> None:
        self._open.remove(turn)
        turn.tail = NOTHING
        self.tally.finals += bool(turn.utterance)
        if turn.announced:
            whole = self._words(Whole, turn, added)
            await self._tell(Failed(turn=turn.number, fault=turn.fault) if turn.fault else whole)

    async def _fail(self, turn: _Turn, stop: int, fault: SeatError, *, last: bool) -> None:
        """Give up a stretch, and with it its turn; what is behind it is another's, unless only commits end turns."""
        turn.fault, turn.head, turn.carried, turn.due_at = fault, stop, None, None
        if not (last or self._turns):
            return
        if self._turns and not turn.announced:
            await self._announce(turn, turn.first / SAMPLE_RATE)
        if turn not in self._open:
            return
        if not last:
            await self._break(turn)
        await self._finish(turn, "")

    def _words(self, kind: type[Words], turn: _Turn, added: str) -> Words:
        return kind(
            turn=turn.number,
            added=added,
            snapshot=lambda: turn.utterance.snapshot(turn.tail),
            audio_s=max(0, turn.head - turn.first) / SAMPLE_RATE,
            start_s=turn.first / SAMPLE_RATE,
        )

    async def _tell(self, event: Event) -> None:
        """One event after the other: both tasks have some."""
        async with self._telling:
            await self._emit(event)

    def _note_lag(self, turn: _Turn) -> None:
        if turn.due_at is not None:
            self.tally.worst_lag_s = max(self.tally.worst_lag_s, time.monotonic() - turn.due_at)
        turn.due_at = None
