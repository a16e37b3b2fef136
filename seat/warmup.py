"""Make a loaded model ready: capture its decoder, run noise, settle its memory. Knows lengths; no requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from seat.errors import GraphsUnavailable, MemoryLimit
from seat.executor import Executor
from seat.faults import is_shortage
from seat.memory import Governor
from seat.recognizer import SAMPLE_RATE, Recognizer
from seat.telemetry import log

WARM_BATCH = 2
"""Windows in the batch that the warm-up begins with."""


class WarmUp:
    """The first work of a recognizer, all of it on the GPU thread and under the governor."""

    def __init__(self, executor: Executor, recognizer: Recognizer, governor: Governor, longest: int) -> None:
        """Begin with nothing run.

        Args:
            executor: The one thread.
            recognizer: As loaded.
            governor: Unsettled.
            longest: Samples of the longest window there will be.
        """
        self._executor, self._recognizer, self._governor = executor, recognizer, governor
        self._longest, self._longest_s = longest, longest / SAMPLE_RATE

    async def capture(self, rows: int) -> None:
        """Capture the decoder for batches of so many of the longest windows, before anything else runs.

        Raises:
            CannotStart: The memory does not hold that, or the decoder runs with less than whole graphs.
        """
        try:
            await self._executor.run(partial(self._recognizer.capture, rows, self._longest))
        except Exception as fault:
            if is_shortage(fault):
                raise self._governor.shortfall(self._longest_s) from fault
            raise
        if self._recognizer.graphs != "full_graph":
            raise GraphsUnavailable(mode=self._recognizer.graphs)
        log.info("graphs_captured", mode=self._recognizer.graphs, batch=rows, longest_s=self._longest_s)

    async def run(self, asked_s: Sequence[float]) -> float:
        """Run noise of ascending lengths, up to the longest window: the first request must not pay for a first time.

        A batch of several comes first: other kernels serve it, and what they take must be there when the memory is
        settled.

        Args:
            asked_s: Lengths to run besides the longest, in seconds; of one second at least, and the longest at most.

        Returns:
            Seconds that the longest window took.

        Raises:
            CannotStart: The memory does not hold it.
        """
        lengths_s = sorted({min(max(seconds, 1.0), self._longest_s) for seconds in (*asked_s, self._longest_s)})
        began_at = time.monotonic()
        for seconds, count in [(lengths_s[0], WARM_BATCH), *((seconds, 1) for seconds in lengths_s)]:
            noise = np.random.default_rng(0).normal(0, 1000, round(seconds * SAMPLE_RATE)).astype(np.int16)
            began_at = time.monotonic()
            try:
                call = partial(self._recognizer.recognize, [noise] * count)
                await self._executor.run(partial(self._governor.run, seconds * count, call))
            except MemoryLimit as fault:
                raise self._governor.shortfall(self._longest_s) from fault
        longest_took_s = time.monotonic() - began_at
        await self._executor.run(partial(self._governor.settle, self._longest_s))
        return longest_took_s
