"""Turn one upload into one transcript: decode, plan, hear, time. Knows the order; no HTTP, no torch."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import BinaryIO, Self

from seat import audio
from seat.budget import Budget
from seat.errors import DeadlineExceeded
from seat.hearing import Hearing, Listeners
from seat.meter import MIB
from seat.recognizer import SAMPLE_RATE, Vocabulary, Waveform
from seat.scheduler import Scheduler
from seat.stitching import Join, Stitcher
from seat.telemetry import recognizing, stage
from seat.transcript import Timings, Transcript
from seat.voice import Chunking, packed, speech_stretches
from seat.windows import SHORTEST, Window, WindowLimits, plan, plan_within, quietest_point


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
    decoded_nbytes: int
    """Bytes of decoded audio that all of them hold."""
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
        self._places = Budget(limits.requests, "{} requests".format)
        self._decoded = Budget(limits.decoded_nbytes, lambda nbytes: f"{nbytes // MIB} MiB of decoded audio")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._decoders.shutdown(wait=False, cancel_futures=True)

    async def transcribe(
        self,
        source: BinaryIO,
        listeners: Listeners,
        *,
        deadline_s: float = math.inf,
        chunking: Chunking | None = None,
    ) -> tuple[Transcript, Timings]:
        """Transcribe a file of any container.

        Args:
            source: A seekable file; it must stay open until this returns or raises.
            listeners: Who wants to know meanwhile.
            deadline_s: Seconds that the client waits; the limit's apply where they are fewer.
            chunking: How the audio is cut by speech and silence; None for windows that tile it.

        Raises:
            InvalidRequest: There is no audio in it, or too much.
            Unavailable: Too much is inside already.
            DeadlineExceeded: It took too long.
            RecognitionFailed: The model raised.
        """
        deadline_s = min(deadline_s, self._limits.deadline_s)
        with self._places.share() as take_place, self._decoded.share() as draw:
            take_place(1)
            try:
                async with asyncio.timeout(deadline_s):
                    return await self._transcribe(source, listeners, chunking, time.monotonic() + deadline_s, draw)
            except TimeoutError as fault:
                raise DeadlineExceeded(deadline_s=deadline_s) from fault

    def refuse_late(self, deadline_s: float) -> None:
        """Refuse before an upload is read what would be refused behind it.

        Raises:
            Unavailable: There is no place, or the answer would come later than in so many seconds.
        """
        with self._places.share() as take_place:
            take_place(1)
        self._scheduler.refuse_late(time.monotonic() + min(deadline_s, self._limits.deadline_s))

    async def _transcribe(
        self,
        source: BinaryIO,
        listeners: Listeners,
        chunking: Chunking | None,
        deadline_at: float,
        draw: Callable[[int], None],
    ) -> tuple[Transcript, Timings]:
        with stage("decode"):
            waveform, windows = await self._prepare(source, chunking, draw)
        join: Join = self._limits.join if len(windows) > 1 else "independent"
        stitcher = Stitcher(windows, self._vocabulary, samples=len(waveform), language=self._language, join=join)
        carried_frame = self._frame if join == "carried" else None
        with recognizing():
            hearing = Hearing(waveform, windows, stitcher, listeners, carried_frame=carried_frame)
            heard = await hearing.run(self._scheduler, deadline_at)
        # An hour of speech is some 9,000 words: milliseconds that the event loop does not have.
        with stage("assemble"):
            transcript = stitcher.transcript() if len(windows) == 1 else await asyncio.to_thread(stitcher.transcript)
        timings = Timings(
            audio_s=transcript.duration_s,
            queue_s=heard.queue_s,
            inference_s=heard.inference_s,
            windows=len(windows),
            batch_sizes=heard.batch_sizes,
            peak_nbytes=heard.peak_nbytes,
            rest_nbytes=heard.rest_nbytes,
        )
        return transcript, timings

    async def _prepare(
        self, source: BinaryIO, chunking: Chunking | None, draw: Callable[[int], None]
    ) -> tuple[Waveform, list[Window]]:
        """Decode and plan in a thread. Cancelled, it returns only when the thread has let go of the file."""
        cancelled = threading.Event()

        def prepare() -> tuple[Waveform, list[Window]]:
            waveform = audio.decode(source, limit_s=self._limits.audio_s, cancelled=cancelled.is_set, draw=draw)
            return waveform, self._plan(waveform, chunking)

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

    def _plan(self, waveform: Waveform, chunking: Chunking | None) -> list[Window]:
        limits, quietest = self._limits.windows, partial(quietest_point, waveform)
        grid = self._frame if self._limits.join == "carried" else 1
        if chunking is None or len(waveform) <= SHORTEST:
            return plan(len(waveform), limits, quietest, grid)
        stretches = speech_stretches(waveform, chunking)
        # Windows are never shorter than the shortest: for a file of short words that bounds what they cost together.
        longest = limits.core if chunking.packed else SHORTEST
        return plan_within(packed(stretches, longest), len(waveform), limits, quietest, grid)
