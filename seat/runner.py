"""Run one batch on the GPU thread: under the governor, in a span. Knows the model; nothing of who waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from seat.batches import Entry, Ran
from seat.errors import DeviceLost
from seat.executor import Executor, Job
from seat.faults import is_fatal
from seat.memory import Governor
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Recognizer
from seat.telemetry import batch_span, tell_footprint


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a batch gave."""

    entries: tuple[Entry, ...]
    """The windows that somebody still waited for when it began."""
    recognitions: tuple[Recognition, ...]
    """One for each of them."""
    audio_s: float
    """Seconds of audio in them, without padding."""
    ran: Ran | None
    """How it went; None where nobody waited any more and nothing ran."""


class Runner:
    """Hands batches to the GPU thread. After a fault that leaves the device useless it runs nothing any more."""

    def __init__(
        self, executor: Executor, recognizer: Recognizer, governor: Governor, clock: Callable[[], float]
    ) -> None:
        self._executor, self._recognizer, self._governor, self._clock = executor, recognizer, governor, clock
        self._lost = False
        self._padding = ThreadPoolExecutor(
            1, "pad"
        )  # asyncio's own threads may all be busy with spooling and rendering

    async def pad(self, entries: Sequence[Entry]) -> object | None:
        """Lay the windows of a batch side by side, in a thread of its own, while another batch computes.

        Where that fails, there is None: it is done on the GPU thread then, and a fault there is one of the batch.
        """
        waveforms = [entry.waveform for entry in entries]
        with contextlib.suppress(Exception):
            return await asyncio.get_running_loop().run_in_executor(self._padding, self._recognizer.pad, waveforms)
        return None

    def close(self) -> None:
        """Let that thread go; it is not waited for."""
        self._padding.shutdown(wait=False)

    def submit(self, entries: Sequence[Entry], padded: object | None = None) -> Job[Outcome]:
        """Put a batch into the GPU thread's line.

        Args:
            entries: At least one.
            padded: What `pad` made of the same entries; None to do that on the GPU thread.

        Returns:
            A job that can raise what the model raises, `seat.errors.MemoryLimit`, and `seat.errors.DeviceLost`.
        """
        return self._executor.submit(partial(self._run, entries, padded))

    def _run(self, entries: Sequence[Entry], padded: object | None) -> Outcome:
        if self._lost:
            raise DeviceLost
        waited_for = [entry for entry in entries if not entry.future.done()]
        if not waited_for:
            return Outcome(entries=(), recognitions=(), audio_s=0.0, ran=None)
        try:
            return self._measured(waited_for, padded if len(waited_for) == len(entries) else None)
        except Exception as fault:
            self._lost = is_fatal(fault)
            raise

    def _measured(self, entries: list[Entry], padded: object | None) -> Outcome:
        lengths = [len(entry.waveform) for entry in entries]
        audio_s, padded_s = sum(lengths) / SAMPLE_RATE, max(lengths) * len(lengths) / SAMPLE_RATE
        attention = self._recognizer.attention(max(lengths))
        origins = (entry.origin for entry in entries)
        began_at = self._clock()
        with batch_span(origins, audio_s=audio_s, padded_s=padded_s, windows=len(entries), attention=attention) as told:
            try:
                recognitions = self._governor.run(padded_s, partial(self._recognized, entries, padded))
            finally:
                footprint = self._governor.last
                tell_footprint(told, footprint)
        ran = Ran(size=len(entries), began_at=began_at, ended_at=self._clock(), footprint=footprint)
        return Outcome(entries=tuple(entries), recognitions=tuple(recognitions), audio_s=audio_s, ran=ran)

    def _recognized(self, entries: list[Entry], padded: object | None) -> list[Recognition]:
        """Compute: as chunks where one of the entries is one."""
        if any(entry.chunk for entry in entries):
            chunks = [entry.chunk or Chunk(waveform=entry.waveform, first=0, stop=None) for entry in entries]
            proceeded = self._recognizer.proceed(chunks, padded)
            recognitions = [recognition for recognition, _ in proceeded]
            for entry, (_, carried) in zip(entries, proceeded, strict=False):
                entry.carried = carried
        else:
            recognitions = self._recognizer.recognize([entry.waveform for entry in entries], padded)
        if len(recognitions) != len(entries):
            message = f"{len(recognitions)} recognitions for {len(entries)} waveforms"
            raise RuntimeError(message)
        return recognitions
