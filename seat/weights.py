"""Take a model's weights off the device while nobody needs them. Knows when they are where; not how they move."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from seat.executor import Executor
from seat.faults import is_fatal
from seat.memory import Governor
from seat.meter import MIB
from seat.recognizer import Recognizer
from seat.telemetry import log


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsStatistics:
    """Where the weights are, and what moving them cost."""

    released: bool
    """Whether they are off the device."""
    release_s: float | None
    """Seconds that taking them off took the last time; None before the first."""
    restore_s: float | None
    """Seconds that bringing them back took the last time; None before the first."""


class Weights:
    """The weights of one recognizer, moved on the GPU thread."""

    def __init__(self, executor: Executor, recognizer: Recognizer, governor: Governor) -> None:
        self._executor, self._recognizer, self._governor = executor, recognizer, governor
        self.released = False
        """Whether they are off the device."""
        self._release_s: float | None = None
        self._restore_s: float | None = None

    async def release(self) -> None:
        """Take them off; where that fails, they stay and the log says why.

        Raises:
            Exception: It failed so that the device computes nothing any more.
        """
        try:
            self._release_s = await self._moved(self._recognizer.release)
        except Exception as fault:
            log.warning("release_failed", reason=f"{type(fault).__name__}: {fault}")
            if is_fatal(fault):
                raise
            return
        self.released = True
        log.info("released", release_s=round(self._release_s, 3), rest_mib=await self._rest_mib())

    async def restore(self) -> None:
        """Bring them back.

        Raises:
            Exception: They cannot be; they stay away, and it may be tried again.
        """
        try:
            self._restore_s = await self._moved(self._recognizer.restore)
        except Exception as fault:
            log.warning("restore_failed", reason=f"{type(fault).__name__}: {fault}")
            raise
        self.released = False
        log.info("restored", restore_s=round(self._restore_s, 3), rest_mib=await self._rest_mib())

    def statistics(self) -> WeightsStatistics:
        """Where they are right now."""
        return WeightsStatistics(released=self.released, release_s=self._release_s, restore_s=self._restore_s)

    async def _moved(self, move: Callable[[], None]) -> float:
        """Seconds that a move took."""

        def measured() -> float:
            began_at = time.monotonic()
            move()
            return time.monotonic() - began_at

        return await self._executor.run(measured)

    async def _rest_mib(self) -> int:
        """MiB that the process takes after a move."""
        await self._executor.run(self._governor.recount)
        return self._governor.statistics().rest // MIB
