"""Put together what serves requests once a model is warm. Knows settings and how parts fit; no state, no HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from seat.executor import Executor
from seat.memory import Governor
from seat.meter import MIB
from seat.queueing import QueueLimits
from seat.recognizer import SAMPLE_RATE, Recognizer
from seat.scheduler import Scheduler
from seat.settings import Settings
from seat.streams import StreamLimits, Streams
from seat.transcriber import Transcriber, TranscriberLimits
from seat.windows import WindowLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class Works:
    """The parts of a seat that is open."""

    recognizer: Recognizer
    """The model, warm; used on the GPU thread only."""
    governor: Governor
    """Keeps its memory."""
    scheduler: Scheduler
    """Runs windows."""
    transcriber: Transcriber
    """Hears files."""
    streams: Streams
    """The live sessions."""


@asynccontextmanager
async def assembled(  # noqa: PLR0913  what it is made of, each named
    settings: Settings,
    executor: Executor,
    recognizer: Recognizer,
    governor: Governor,
    on_lost: Callable[[BaseException], None],
    *,
    language: str,
    longest_took_s: float,
) -> AsyncIterator[Works]:
    """Open a seat's parts, and close them in the opposite order.

    Args:
        settings: What the operator asked for.
        executor: The one thread.
        recognizer: Warm.
        governor: Settled.
        on_lost: As for `Scheduler`.
        language: ISO 639-1 code of transcripts for which nobody asks for another.
        longest_took_s: Seconds that the longest window took, for predictions.
    """
    windows = window_limits(settings)
    scheduler = Scheduler(
        executor,
        recognizer,
        governor,
        QueueLimits(
            audio_s=settings.max_queue_audio_s,
            batch_s=settings.max_batch_s,
            windows=settings.cuda_graphs_batch if settings.cuda_graphs else None,
        ),
        on_lost,
        idle_s=settings.idle_release_s or None,
    )
    scheduler.learn(longest_took_s, windows.longest / SAMPLE_RATE)
    transcriber = Transcriber(
        scheduler,
        recognizer.vocabulary,
        language,
        TranscriberLimits(
            windows=windows,
            join=settings.window_join,
            audio_s=settings.max_audio_s or None,
            deadline_s=settings.deadline_s,
            requests=settings.max_requests,
            decoded_nbytes=settings.max_decoded_mib * MIB,
            decoders=settings.decoders,
        ),
    )
    streams = Streams(
        scheduler,
        recognizer.vocabulary,
        StreamLimits(
            window_s=settings.live_window_s,
            sessions=settings.max_live_sessions,
            session_s=settings.max_live_s or None,
            waiting_s=settings.max_live_wait_s,
            stall_s=settings.stall_s,
        ),
    )
    async with scheduler, transcriber:
        yield Works(
            recognizer=recognizer, governor=governor, scheduler=scheduler, transcriber=transcriber, streams=streams
        )


def window_limits(settings: Settings) -> WindowLimits:
    """How large the windows of files are."""
    return WindowLimits.of_seconds(settings.window_s, settings.window_context_s)
