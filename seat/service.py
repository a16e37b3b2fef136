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
from functools import partial
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from seat.budget import Budget
from seat.errors import DeviceLost, GraphsUnavailable, MemoryLimit, ModelLoading, ShuttingDown, Stalled
from seat.executor import Executor, ExecutorStatistics
from seat.faults import is_shortage
from seat.hearing import Listeners, NewWords, Progress, unheard, unread
from seat.languages import of_model
from seat.memory import Governor, MemoryStatistics, cap_nbytes
from seat.meter import MIB, Reported
from seat.queueing import QueueLimits, QueueStatistics
from seat.recognizer import SAMPLE_RATE, Examination, ModelInfo, Recognizer
from seat.scheduler import Scheduler, SchedulerStatistics
from seat.settings import Settings
from seat.streams import StreamLimits, Streams, StreamStatistics
from seat.telemetry import log, note_timings
from seat.transcriber import Transcriber, TranscriberLimits
from seat.transcript import Transcript
from seat.voice import Chunking
from seat.weights import WeightsStatistics
from seat.windows import WindowLimits

WARM_BATCH = 2
"""Windows in the batch that the warm-up begins with."""

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
    """What a seat is and does; from `memory` on, None until the model has warmed up."""

    state: State
    """Where it is in its life."""
    running_s: float
    """Seconds that the model's running call has taken so far; 0 where none runs."""
    memory: MemoryStatistics | None
    """What is promised and what was measured."""
    queue: QueueStatistics | None
    """What waits."""
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
    ) -> None:
        self._settings = settings
        self._load_recognizer = load_recognizer
        self._on_failure = on_failure
        self._executor = Executor()
        self._uploads = Budget(UPLOADS_A_REQUEST * settings.max_requests, "{} uploads".format)
        self._stack = AsyncExitStack()
        self._recognizer: Recognizer | None = None
        self._governor: Governor | None = None
        self._scheduler: Scheduler | None = None
        self._transcriber: Transcriber | None = None
        self._streams: Streams | None = None
        self._loading: asyncio.Task[None] | None = None
        self._failed = self._stopping = False
        self.started_at = time.time()
        """When the service was made, in seconds since 1970."""
        self.info: ModelInfo | None = None
        """What is loaded; None until it is."""
        self.graphs: str | None = None
        """The decoder's mode of CUDA graphs in force once warm; None until then."""
        self.attention: str | None = None
        """What the longest window is computed with once warm; None until then."""
        self.reported: Callable[[], Reported] | None = None
        """Asks what others are told of this process's memory; None until the model has warmed up."""

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
        if self._scheduler is None or self._transcriber is None:
            return State.LOADING
        if self._executor.statistics().running_s > self._settings.stall_s:
            return State.STALLED
        return State.RELEASED if self._scheduler.weights.released else State.READY

    @property
    def work(self) -> SchedulerStatistics | None:
        """What waits and what has been done; None until the model has warmed up."""
        return self._scheduler.statistics() if self._scheduler else None

    @property
    def thread(self) -> ExecutorStatistics:
        """What the GPU thread is doing."""
        return self._executor.statistics()

    @property
    def memory(self) -> MemoryStatistics | None:
        """What is promised and what was measured; None until the model has warmed up."""
        return self._governor.statistics() if self._governor and self._transcriber else None

    def statistics(self) -> ServiceStatistics:
        """What this seat is and does right now; may be called on any thread."""
        return ServiceStatistics(
            state=self.state,
            running_s=self._executor.statistics().running_s,
            memory=self.memory,
            queue=self._scheduler.statistics().queue if self._scheduler else None,
            streams=self.streams,
            info=self.info,
            attention=self.attention,
            graphs=self.graphs,
        )

    @property
    def weights(self) -> WeightsStatistics | None:
        """Where the weights are; None until the model has warmed up."""
        return self._scheduler.weights.statistics() if self._scheduler else None

    @property
    def languages(self) -> tuple[str, ...]:
        """ISO 639-1 codes of what the model speaks, the usual one first."""
        return self._settings.model_languages or of_model(self._settings.model_id)

    @property
    def streams(self) -> StreamStatistics | None:
        """The live sessions; None until the model has warmed up."""
        return self._streams.statistics() if self._streams else None

    @property
    def live(self) -> bool:
        """False where only a new process can help."""
        wedged = self._executor.statistics().running_s > WEDGED_AFTER_STALLS * self._settings.stall_s
        return not self._failed and not (wedged and self._transcriber is not None)

    def stop_admission(self) -> None:
        """Refuse new requests from now on; those inside go on."""
        self._stopping = True

    async def drain_streams(self) -> None:
        """Have the live sessions, which never end by themselves, come to their end, and wait for it."""
        if self._streams is not None:
            await self._streams.drain()

    async def loaded(self) -> None:
        """Wait until loading has ended, well or not; it goes on where the waiter is cancelled."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    def open_transcriber(self) -> Transcriber:
        """What transcribes, where the seat is open.

        Raises:
            Unavailable: The seat is loading, stalled or stopping, or has lost its device.
        """
        if self._stopping:
            raise ShuttingDown
        if self._failed:
            raise DeviceLost
        if self._transcriber is None:
            raise ModelLoading
        if self.state is State.STALLED:
            raise Stalled
        return self._transcriber

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

    def open_streams(self) -> Streams:
        """What opens live sessions, where the seat is open.

        Raises:
            Unavailable: As `open_transcriber`.
        """
        self.open_transcriber()
        assert self._streams is not None  # noqa: S101  it is made before the transcriber
        return self._streams

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
        """
        transcript, timings = await self.open_transcriber().transcribe(
            source,
            Listeners(progress=on_progress, words=on_words),
            deadline_s=deadline_s,
            chunking=chunking,
        )
        note_timings(timings)
        return transcript

    async def examine(self) -> Examination:
        """Let the recognizer look at itself, on its thread.

        Raises:
            ModelLoading: It has not warmed up yet.
        """
        if self._recognizer is None:
            raise ModelLoading
        return await self._executor.run(self._recognizer.examine)

    async def _load(self) -> None:
        began_at = time.monotonic()
        try:
            recognizer = await self._executor.run(self._load_recognizer)
            loaded_at = time.monotonic()
            windows = WindowLimits.of_seconds(self._settings.window_s, self._settings.window_context_s)
            governor = Governor(
                recognizer.meter,
                cap=cap_nbytes(self._settings.mem_cap_mib, recognizer.info.device),
                returns=self._settings.mem_return,
            )
            if self._settings.cuda_graphs:
                await self._capture(recognizer, governor, windows)
            longest_took_s = await self._warm_up(recognizer, governor, windows)
            await self._open(recognizer, governor, windows, longest_took_s)
        except Exception as fault:  # noqa: BLE001  whatever it is, the process must say so and end
            self._fail(fault)
            return
        self._tell_ready(governor, loaded_at - began_at, time.monotonic() - loaded_at)

    async def _open(
        self, recognizer: Recognizer, governor: Governor, windows: WindowLimits, longest_took_s: float
    ) -> None:
        """Let requests in."""
        if recognizer.info.device == "cpu" and self._settings.device == "auto":
            log.warning(
                "no_gpu", device="cpu", consequence="the processor computes; set SEAT_DEVICE=cuda to refuse that"
            )
        self._recognizer, self._governor = recognizer, governor
        self._scheduler = await self._stack.enter_async_context(
            Scheduler(
                self._executor,
                recognizer,
                governor,
                QueueLimits(
                    audio_s=self._settings.max_queue_audio_s,
                    batch_s=self._settings.max_batch_s,
                    windows=self._settings.cuda_graphs_batch if self._settings.cuda_graphs else None,
                ),
                self._fail,
                idle_s=self._settings.idle_release_s or None,
            )
        )
        self._scheduler.learn(longest_took_s, windows.longest / SAMPLE_RATE)
        self.info, self.graphs = replace(recognizer.info, languages=self.languages), recognizer.graphs
        self.attention = recognizer.attention(windows.longest)
        self.reported = recognizer.meter.reported
        self._streams = Streams(
            self._scheduler,
            recognizer.vocabulary,
            StreamLimits(
                window_s=self._settings.live_window_s,
                sessions=self._settings.max_live_sessions,
                session_s=self._settings.max_live_s or None,
                waiting_s=self._settings.max_live_wait_s,
            ),
        )
        self._transcriber = await self._stack.enter_async_context(
            Transcriber(
                self._scheduler,
                recognizer.vocabulary,
                self.languages[0],
                TranscriberLimits(
                    windows=windows,
                    join=self._settings.window_join,
                    audio_s=self._settings.max_audio_s or None,
                    deadline_s=self._settings.deadline_s,
                    requests=self._settings.max_requests,
                    decoded_nbytes=self._settings.max_decoded_mib * MIB,
                    decoders=self._settings.decoders,
                ),
            )
        )

    def _tell_ready(self, governor: Governor, load_s: float, warmup_s: float) -> None:
        """Print the contract once, as read from what runs."""
        info, memory = self.info, governor.statistics()
        assert info is not None  # noqa: S101  the seat is open
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
            attention=self.attention,
            graphs=self.graphs,
            compiled=info.compiled,
            load_s=round(load_s, 2),
            warmup_s=round(warmup_s, 2),
        )

    async def _capture(self, recognizer: Recognizer, governor: Governor, windows: WindowLimits) -> None:
        """Capture the decoder for the largest batch there will be, before anything else runs.

        Raises:
            CannotStart: The memory does not hold that, or the decoder runs with less than whole graphs.
        """
        rows = self._settings.cuda_graphs_batch
        try:
            await self._executor.run(partial(recognizer.capture, rows, windows.longest))
        except Exception as fault:
            if is_shortage(fault):
                raise governor.shortfall(windows.longest / SAMPLE_RATE) from fault
            raise
        if recognizer.graphs != "full_graph":
            raise GraphsUnavailable(mode=recognizer.graphs)
        log.info("graphs_captured", mode=recognizer.graphs, batch=rows, longest_s=windows.longest / SAMPLE_RATE)

    async def _warm_up(self, recognizer: Recognizer, governor: Governor, windows: WindowLimits) -> float:
        """Run noise of ascending lengths, up to the longest window: the first request must not pay for a first time.

        A batch of several comes first: other kernels serve it, and what they take must be there when `settle` measures.

        Returns:
            Seconds that the longest window took.

        Raises:
            CannotStart: The memory does not hold it.
        """
        longest_s = windows.longest / SAMPLE_RATE
        lengths_s = sorted(
            {min(max(asked_s, 1.0), longest_s) for asked_s in (*self._settings.warmup_seconds, longest_s)}
        )
        began_at = time.monotonic()
        for seconds, count in [(lengths_s[0], WARM_BATCH), *((seconds, 1) for seconds in lengths_s)]:
            noise = np.random.default_rng(0).normal(0, 1000, round(seconds * SAMPLE_RATE)).astype(np.int16)
            began_at = time.monotonic()
            try:
                call = partial(recognizer.recognize, [noise] * count)
                await self._executor.run(partial(governor.run, seconds * count, call))
            except MemoryLimit as fault:
                raise governor.shortfall(longest_s) from fault
        longest_took_s = time.monotonic() - began_at
        await self._executor.run(partial(governor.settle, longest_s))
        return longest_took_s

    def _fail(self, fault: BaseException) -> None:
        """Take note that this process is of no use any more."""
        self._failed = True
        self._on_failure(fault)
