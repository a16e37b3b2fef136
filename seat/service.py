"""The life of one seat: load, warm up, serve, leave. Knows states and who may enter in which; no HTTP, no torch."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import BinaryIO, Self

from seat import audio
from seat.budget import Budget
from seat.caps import cap_nbytes
from seat.errors import DeadlineExceeded, DeviceLost, ModelLoading, ShuttingDown, Stalled
from seat.executor import Executor, ExecutorStatistics
from seat.hearing import Listeners, NewWords, Progress, unheard, unread
from seat.languages import of_model
from seat.memory import Governor, MemoryStatistics
from seat.meter import MIB, Reported
from seat.recognizer import Examination, ModelInfo, Recognizer
from seat.scheduler import SchedulerStatistics
from seat.settings import Settings
from seat.streams import Streams, StreamStatistics
from seat.telemetry import log, note_timings
from seat.transcriber import Transcriber
from seat.transcript import Transcript
from seat.voice import Chunking
from seat.warmup import WarmUp
from seat.weights import WeightsStatistics
from seat.works import Works, assembled, window_limits

UPLOADS_A_REQUEST = 4
"""Uploads that may be under way for each request that may be inside: they wait for their clients, not for us."""

WEDGED_AFTER_STALLS = 2
"""A call of the model that takes this many times ``SEAT_STALL_S`` never comes back: the process is no longer live."""


class State(enum.StrEnum):
    """Where a seat is in its life."""

    LOADING = "loading"
    READY = "ready"
    RELEASED = "released"
    STALLED = "stalled"
    FAILED = "failed"
    STOPPING = "stopping"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceStatistics:
    """What a seat is and does; from `work` on, None until the model has warmed up."""

    state: State
    """Where it is in its life."""
    thread: ExecutorStatistics
    """What the GPU thread is doing."""
    work: SchedulerStatistics | None
    """What waits and what has been done."""
    memory: MemoryStatistics | None
    """What is promised and what was measured."""
    weights: WeightsStatistics | None
    """Where the weights are."""
    streams: StreamStatistics | None
    """The live sessions."""
    info: ModelInfo | None
    """What is loaded."""
    attention: str | None
    """What the longest window is computed with: 'full' or 'local'."""
    graphs: str | None
    """The decoder's mode of CUDA graphs in force."""


class Service:
    """One seat; an async context manager. Entering returns at once: the model loads on the GPU thread meanwhile."""

    def __init__(
        self,
        settings: Settings,
        load_recognizer: Callable[[], Recognizer],
        on_failure: Callable[[BaseException], None],
        on_warm: Callable[[], None] = lambda: None,
    ) -> None:
        """Load nothing yet.

        Args:
            settings: What the operator asked for.
            load_recognizer: Called once, on the GPU thread.
            on_failure: Called on the event loop with what leaves the process of no use.
            on_warm: Called on the GPU thread between the warm-up and the first request.
        """
        self._settings = settings
        self._load_recognizer = load_recognizer
        self._on_failure = on_failure
        self._on_warm = on_warm
        self._executor = Executor()
        self._longest = window_limits(settings).longest
        self._uploads = Budget(UPLOADS_A_REQUEST * settings.max_requests, "{} uploads".format)
        self._stack = AsyncExitStack()
        self._works: Works | None = None
        self._loading: asyncio.Task[None] | None = None
        self._failed = self._stopping = False
        self.started_at = time.time()
        """When the service was made, in seconds since 1970."""
        self.info: ModelInfo | None = None
        """What is loaded; None until it is."""

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._executor)
        self._loading = asyncio.create_task(self._load(), name="load")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        if self._loading is not None:
            self._loading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loading
        await self._stack.aclose()

    @property
    def state(self) -> State:
        """Where the seat is in its life, right now."""
        if self._stopping:
            return State.STOPPING
        if self._failed:
            return State.FAILED
        if self._works is None:
            return State.LOADING
        if self._executor.statistics().running_s > self._settings.stall_s:
            return State.STALLED
        return State.RELEASED if self._works.scheduler.weights.released else State.READY

    def statistics(self) -> ServiceStatistics:
        """What this seat is and does right now; may be called on any thread."""
        works = self._works
        return ServiceStatistics(
            state=self.state,
            thread=self._executor.statistics(),
            work=works.scheduler.statistics() if works else None,
            memory=works.governor.statistics() if works else None,
            weights=works.scheduler.weights.statistics() if works else None,
            streams=works.streams.statistics() if works else None,
            info=self.info,
            attention=works.recognizer.attention(self._longest) if works else None,
            graphs=works.recognizer.graphs if works else None,
        )

    def reported(self) -> Reported | None:
        """What others are told of this process's memory, which can take milliseconds; None until the model is warm."""
        return self._works.recognizer.meter.reported() if self._works else None

    @property
    def languages(self) -> tuple[str, ...]:
        """ISO 639-1 codes of what the model speaks, the usual one first."""
        return self._settings.model_languages or of_model(self._settings.model_id)

    @property
    def live(self) -> bool:
        """False where only a new process can help."""
        wedged = self._executor.statistics().running_s > WEDGED_AFTER_STALLS * self._settings.stall_s
        return not self._failed and not (wedged and self._works is not None)

    def stop_admission(self) -> None:
        """Refuse new requests from now on; those inside go on."""
        self._stopping = True

    async def drain_streams(self) -> None:
        """Have the live sessions, which never end by themselves, come to their end, and wait for it."""
        if self._works is not None:
            await self._works.streams.drain()

    async def loaded(self) -> None:
        """Wait until loading has ended, well or not; it goes on where the waiter is cancelled."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    def open_transcriber(self) -> Transcriber:
        """What transcribes files, where the seat is open.

        Raises:
            Unavailable: The seat is loading, stalled or stopping, or has lost its device.
        """
        return self._opened().transcriber

    def open_streams(self) -> Streams:
        """What opens live sessions, where the seat is open.

        Raises:
            Unavailable: As `open_transcriber`.
        """
        return self._opened().streams

    def _opened(self) -> Works:
        if self._stopping:
            raise ShuttingDown
        if self._failed:
            raise DeviceLost
        if self._works is None:
            raise ModelLoading
        if self.state is State.STALLED:
            raise Stalled
        return self._works

    @contextmanager
    def upload(self, deadline_s: float = math.inf) -> Iterator[None]:
        """Let an upload in, to be read inside, where what it holds could be answered in so many seconds.

        Raises:
            Unavailable: As for `transcribe`.
        """
        self.open_transcriber().refuse_late(deadline_s)
        with self._uploads.share() as take_place:
            take_place(1)
            yield

    async def transcribe(
        self,
        source: BinaryIO,
        on_progress: Progress = unheard,
        deadline_s: float = math.inf,
        *,
        on_words: NewWords = unread,
        chunking: Chunking | None = None,
    ) -> Transcript:
        """Transcribe a file; as `Transcriber.transcribe`, and the timings go into the request's line.

        Raises:
            Unavailable: The seat is loading, stalled, stopping, full, out of memory or has lost its device.
            Stalled: The deadline has passed, and the model does not respond: that is no matter of this file.
        """
        try:
            transcript, timings = await self.open_transcriber().transcribe(
                source,
                Listeners(progress=on_progress, words=on_words),
                deadline_s=deadline_s,
                chunking=chunking,
            )
        except DeadlineExceeded as fault:
            if self.state is State.STALLED:
                raise Stalled from fault
            raise
        note_timings(timings)
        return transcript

    async def examine(self) -> Examination:
        """Let the recognizer look at itself, on its thread.

        Raises:
            ModelLoading: It has not warmed up yet.
        """
        if self._works is None:
            raise ModelLoading
        return await self._executor.run(self._works.recognizer.examine)

    async def _load(self) -> None:
        began_at, settings = time.monotonic(), self._settings
        try:
            recognizer = await self._executor.run(self._load_recognizer)
            loaded_at = time.monotonic()
            await asyncio.to_thread(audio.prepare)
            governor = Governor(
                recognizer.meter,
                cap=cap_nbytes(settings.mem_cap_mib, recognizer.info.device),
                returns="always" if settings.mem_return else "never" if settings.cuda_graphs else "when short",
            )
            warm_up = WarmUp(self._executor, recognizer, governor, self._longest)
            if settings.cuda_graphs:
                await warm_up.capture(settings.cuda_graphs_batch)
            longest_took_s = await warm_up.run(settings.warmup_seconds)
            await self._executor.run(self._on_warm)
            await self._open(recognizer, governor, longest_took_s)
        except Exception as fault:  # noqa: BLE001  whatever it is, the process must say so and end
            self._fail(fault)
            return
        self._tell_ready(self.statistics(), loaded_at - began_at, time.monotonic() - loaded_at)

    async def _open(self, recognizer: Recognizer, governor: Governor, longest_took_s: float) -> None:
        """Let requests in."""
        if recognizer.info.device == "cpu" and self._settings.device == "auto":
            log.warning(
                "no_gpu", device="cpu", consequence="the processor computes; set SEAT_DEVICE=cuda to refuse that"
            )
        works = assembled(
            self._settings,
            self._executor,
            recognizer,
            governor,
            self._fail,
            language=self.languages[0],
            longest_took_s=longest_took_s,
        )
        self._works = await self._stack.enter_async_context(works)
        self.info = replace(recognizer.info, languages=self.languages)

    def _tell_ready(self, now: ServiceStatistics, load_s: float, warmup_s: float) -> None:
        """Print the contract once, as read from what runs."""
        info, memory = now.info, now.memory
        assert info is not None and memory is not None  # noqa: S101, PT018  the seat is open
        log.info(
            "ready",
            model=info.id,
            revision=info.revision,
            sha256=info.sha256,
            device=info.device,
            device_name=info.device_name,
            dtype=info.dtype,
            window_s=self._settings.window_s,
            window_context_s=self._settings.window_context_s,
            window_join=self._settings.window_join,
            live_window_s=self._settings.live_window_s,
            mem_cap_mib=memory.cap and memory.cap // MIB,
            mem_rest_mib=memory.rest // MIB,
            mem_peak_mib=memory.peak // MIB,
            mem_outside_mib=memory.outside.nbytes // MIB,
            mem_outside_source=memory.outside.source,
            attention=now.attention,
            graphs=now.graphs,
            compiled=info.compiled,
            load_s=round(load_s, 2),
            warmup_s=round(warmup_s, 2),
        )

    def _fail(self, fault: BaseException) -> None:
        """Take note that this process is of no use any more."""
        self._failed = True
        self._on_failure(fault)
