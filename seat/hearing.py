"""Hear the windows of one file, and pass on its words in order. Knows windows and who runs them; no file, no format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seat.batches import Heard
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Waveform
from seat.scheduler import Scheduler
from seat.stitching import Stitcher
from seat.transcript import Word
from seat.windows import Window, without_tail

Progress = Callable[[float, float], None]
"""Called on the event loop with the seconds of audio that have been recognized so far, and in all."""

NewWords = Callable[[Sequence[Word]], None]
"""Called on the event loop with the next words of a transcript, as soon as they are settled."""

_NOTHING = Heard(recognitions=(), queue_s=0.0, inference_s=0.0, batch_sizes=(), peak_nbytes=0, rest_nbytes=0)


def unheard(_done_s: float, _all_s: float) -> None:
    """A `Progress` that nobody looks at."""


def unread(_words: Sequence[Word]) -> None:
    """A `NewWords` that nobody looks at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listeners:
    """Who wants to know while a file is heard."""

    progress: Progress = unheard
    """Called once before the first window, and after every window."""
    words: NewWords = unread
    """Called as words are settled."""


class Hearing:
    """One file on its way through the model. Windows may come back in any order; words leave in that of time."""

    def __init__(
        self,
        waveform: Waveform,
        windows: Sequence[Window],
        stitcher: Stitcher,
        listeners: Listeners,
        *,
        carried_frame: int | None,
    ) -> None:
        """Begin with nothing heard.

        Args:
            waveform: The whole file.
            windows: As `seat.windows` cut it.
            stitcher: Joins what is heard in them.
            listeners: Who is told.
            carried_frame: Samples of an encoder frame, where the decoder goes on from window to window; None where
                windows are independent.
        """
        self._waveform, self._windows = waveform, windows
        self._stitcher, self._listeners = stitcher, listeners
        self._carried_frame = carried_frame
        self._early: dict[int, Recognition] = {}
        self._next = self._done_samples = 0
        self._all_samples = sum(window.core_stop - window.core_start for window in windows)

    async def run(self, scheduler: Scheduler, deadline_at: float) -> Heard:
        """Hear every window.

        A window that comes back empty although there is sound in it is tried once more without the silence behind the
        sound; words behind it wait for that.

        Raises:
            SeatError: As `Scheduler.recognize`.
        """
        self._tell_progress()
        heard = await self._hear(scheduler, deadline_at) if self._windows else _NOTHING
        if self._next != len(self._windows):
            # A callback that raised has been logged by the loop, and nobody else has heard of it.
            message = f"words of {self._next} of {len(self._windows)} windows"
            raise RuntimeError(message)
        return heard

    async def _hear(self, scheduler: Scheduler, deadline_at: float) -> Heard:
        if self._carried_frame is not None:
            chunks = [window.chunk(self._waveform, self._carried_frame) for window in self._windows]
            return await scheduler.carry(chunks, self._take, deadline_at=deadline_at, instead=self._shorter_chunk)
        waveforms = [window.cut(self._waveform) for window in self._windows]
        return await scheduler.recognize(waveforms, self._take, deadline_at=deadline_at, instead=self._shorter)

    def _shorter(self, number: int) -> Waveform | None:
        shorter = without_tail(self._windows[number], self._waveform)
        return None if shorter is None else shorter.cut(self._waveform)

    def _shorter_chunk(self, number: int) -> Chunk | None:
        shorter = without_tail(self._windows[number], self._waveform)
        return None if shorter is None else shorter.chunk(self._waveform, self._carried_frame or 1)

    def _take(self, number: int, recognition: Recognition) -> None:
        window = self._windows[number]
        self._done_samples += window.core_stop - window.core_start
        self._tell_progress()
        self._early[number] = recognition
        while self._next in self._early:
            words = self._stitcher.take(self._early.pop(self._next))
            self._next += 1
            if words:
                self._listeners.words(words)

    def _tell_progress(self) -> None:
        done, whole = self._done_samples, self._all_samples
        self._listeners.progress(done / SAMPLE_RATE, whole / SAMPLE_RATE)
