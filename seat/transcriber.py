"""Turn one upload into one transcript: decode, plan, submit, stitch, time. Knows the order; no HTTP, no torch."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import BinaryIO, Literal, Self

from seat import audio
from seat.batches import Heard
from seat.errors import DeadlineExceeded, QueueFull, Unavailable
from seat.recognizer import SAMPLE_RATE, Vocabulary, Waveform
from seat.scheduler import Scheduler
from seat.telemetry import recognizing, stage
from seat.transcript import Timings, Transcript
from seat.windows import Window, WindowLimits, follow, plan, quietest_point, stitch, without_tail

Progress = Callable[[float, float], None]
"""Called on the event loop with the seconds of audio that have been recognized so far, and in all."""


Join = Literal["independent", "carried"]
"""Windows side by side, words kept by their times; or one after the other, the decoder going on from core to core."""

_NOTHING = Heard(recognitions=(), queue_s=0.0, inference_s=0.0, batch_sizes=(), peak_nbytes=0, rest_nbytes=0)


def unheard(_done_s: float, _all_s: float) -> None:
    """A `Progress` that nobody looks at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriberLimits:
    """What one request, and all together, may take."""

    windows: WindowLimits
    """How audio is cut."""
    join: Join
    """How the windows of one file become one transcript."""
    audio_s: float | None
    """Seconds of audio in one request; None for no limit."""
    deadline_s: float
    """Seconds for one request."""
    requests: int
    """Requests inside at the same time."""
    decoders: int
    """Files that are decoded at the same time."""


class Transcriber:
    """The use case; an async context manager that owns the decoding threads."""

    def __init__(self, scheduler: Scheduler, vocabulary: Vocabulary, language: str, limits: TranscriberLimits) -> None:
        self._scheduler = scheduler
        self._vocabulary = vocabulary
        self._language = language
        self._frame = round(vocabulary.frame_s * SAMPLE_RATE)
        self._limits = limits
        self._decoders = ThreadPoolExecutor(limits.decoders, thread_name_prefix="decode")
        self._inside = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._decoders.shutdown(wait=False, cancel_futures=True)

    async def transcribe(
        self, source: BinaryIO, on_progress: Progress = unheard, deadline_s: float = math.inf
    ) -> tuple[Transcript, Timings]:
        """Transcribe a file of any container.

        Args:
            source: A seekable file; it must stay open until this returns or raises.
            on_progress: Called once the file is decoded, and after every window.
            deadline_s: Seconds that the client waits; the limit's apply where they are fewer.

        Raises:
            InvalidRequest: There is no audio in it, or too much.
            Unavailable: Too much is inside already.
            DeadlineExceeded: It took too long.
            RecognitionFailed: The model raised.
        """
        if self._inside >= self._limits.requests:
            raise QueueFull(waiting=f"{self._inside} requests", retry_after_s=5)
        self._inside += 1
        deadline_s = min(deadline_s, self._limits.deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                return await self._transcribe(source, on_progress, time.monotonic() + deadline_s)
        except TimeoutError as fault:
            raise DeadlineExceeded(deadline_s=deadline_s) from fault
        finally:
            self._inside -= 1

    async def _transcribe(
        self, source: BinaryIO, on_progress: Progress, deadline_at: float
    ) -> tuple[Transcript, Timings]:
        began_at = time.monotonic()
        with stage("decode"):
            waveform, windows = await self._prepare(source)
        decode_s = time.monotonic() - began_at
        on_progress(0.0, len(waveform) / SAMPLE_RATE)
        with recognizing():
            heard = await self._hear(waveform, windows, on_progress, deadline_at) if windows else _NOTHING
        joining = partial(
            follow if self._carries(windows) else stitch,
            windows,
            heard.recognitions,
            self._vocabulary,
            samples=len(waveform),
            language=self._language,
        )
        # An hour of speech is some 9,000 words: milliseconds that the event loop does not have.
        with stage("assemble"):
            transcript = joining() if len(windows) == 1 else await asyncio.to_thread(joining)
        timings = Timings(
            audio_s=transcript.duration_s,
            decode_s=decode_s,
            queue_s=heard.queue_s,
            inference_s=heard.inference_s,
            windows=len(windows),
            batch_sizes=heard.batch_sizes,
            peak_nbytes=heard.peak_nbytes,
            rest_nbytes=heard.rest_nbytes,
        )
        return transcript, timings

    def _carries(self, windows: Sequence[Window]) -> bool:
        return self._limits.join == "carried" and len(windows) > 1

    async def _hear(
        self, waveform: Waveform, windows: Sequence[Window], on_progress: Progress, deadline_at: float
    ) -> Heard:
        done_samples = 0

        def recognized(number: int) -> None:
            nonlocal done_samples
            done_samples += windows[number].core_stop - windows[number].core_start
            on_progress(done_samples / SAMPLE_RATE, len(waveform) / SAMPLE_RATE)

        if self._carries(windows):
            chunks = [window.chunk(waveform, self._frame) for window in windows]
            return await self._scheduler.carry(chunks, recognized, deadline_at=deadline_at)
        waveforms = [window.cut(waveform) for window in windows]
        heard = await self._scheduler.recognize(waveforms, recognized, deadline_at=deadline_at)
        empty = [number for number, recognition in enumerate(heard.recognitions) if not recognition.tokens]
        again = await asyncio.to_thread(_without_tails, windows, empty, waveform) if empty else {}
        if not again:
            return heard
        try:
            retried = await self._scheduler.recognize(list(again.values()), deadline_at=deadline_at)
        except Unavailable:
            return heard  # what there is, is an answer
        second = dict(zip(again, retried.recognitions, strict=True))
        return replace(
            heard,
            recognitions=tuple(second.get(number, first) for number, first in enumerate(heard.recognitions)),
            inference_s=heard.inference_s + retried.inference_s,
            peak_nbytes=max(heard.peak_nbytes, retried.peak_nbytes),
            rest_nbytes=retried.rest_nbytes,
        )

    async def _prepare(self, source: BinaryIO) -> tuple[Waveform, list[Window]]:
        """Decode and plan in a thread. Cancelled, it returns only when the thread has let go of the file."""
        cancelled = threading.Event()

        def prepare() -> tuple[Waveform, list[Window]]:
            waveform = audio.decode(source, limit_s=self._limits.audio_s, cancelled=cancelled.is_set)
            grid = self._frame if self._limits.join == "carried" else 1
            return waveform, plan(len(waveform), self._limits.windows, partial(quietest_point, waveform), grid)

        submitted = self._decoders.submit(prepare)
        prepared = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(prepared)
        except asyncio.CancelledError:
            cancelled.set()
            submitted.cancel()
            while not prepared.done():  # also where it is cancelled again meanwhile
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([prepared])
            if not prepared.cancelled():
                prepared.exception()  # whatever it is, nobody waits for it
            raise


def _without_tails(windows: Sequence[Window], empty: Sequence[int], waveform: Waveform) -> dict[int, Waveform]:
    """What to try once more, by the number of the window in which nothing was heard."""
    shorter = {number: without_tail(windows[number], waveform) for number in empty}
    return {number: window.cut(waveform) for number, window in shorter.items() if window is not None}
