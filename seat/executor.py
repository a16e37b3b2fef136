"""Run calls on one thread for life, from asyncio. Knows calls and futures; no model, no audio.

Torch's inference mode, CUDA's current device and the model's buffers belong to a thread: exactly one touches them.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorStatistics:
    """What the thread is doing."""

    calls: int
    """Calls that have ended, well or not."""
    waiting: int
    """Calls that have not begun."""
    running_s: float
    """Seconds that the running call has taken so far; 0 where none runs."""
    busy_s: float
    """Seconds that all calls have taken so far, the running one included."""


class Job(Generic[Result]):
    """A call that waits for the thread, runs on it, or has run; made by `Executor.submit`."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call, self._context = call, contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._claim = threading.Lock()
        self.outcome: asyncio.Future[Result] = self._loop.create_future()
        """What the call returned or raised. To cancel it withdraws the call where it has not begun."""
        self.outcome.add_done_callback(_seen)

    def withdraw(self) -> bool:
        """Take the call back; False where it has begun, so that exactly one of both happens."""
        if not self._claim.acquire(blocking=False):
            return False
        self.outcome.cancel()
        return True

    def run(self, thread: str) -> Callable[[], None] | None:
        """Run the call, on the thread of that name, unless it was taken back; what is returned tells the waiter."""
        if self.outcome.cancelled() or not self._claim.acquire(blocking=False):
            return None
        try:
            return partial(self._tell, self.outcome.set_result, self._context.run(self._call))
        except Exception as fault:  # noqa: BLE001  whatever it is, the waiter must hear of it and the thread must live
            return partial(self._tell, self.outcome.set_exception, fault)
        except BaseException as fault:  # noqa: BLE001  an exit raised in a task would end the event loop
            said = RuntimeError(f"a call on the {thread} thread raised {type(fault).__name__}")
            said.__cause__ = fault
            return partial(self._tell, self.outcome.set_exception, said)

    def _tell(self, setter: Callable[[Any], None], answer: Any) -> None:  # noqa: ANN401  of any type
        def resolve() -> None:
            if not self.outcome.done():
                setter(answer)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(resolve)


def _seen(outcome: asyncio.Future[Any]) -> None:
    """Look at a fault, so that asyncio does not complain where the waiter has gone."""
    if not outcome.cancelled():
        outcome.exception()


class Executor:
    """One daemon thread that runs calls in the order of their arrival; an async context manager.

    A daemon, because a call that hangs in CUDA can be neither cancelled nor joined: leaving waits for a limited time.
    """

    def __init__(self, *, name: str = "gpu", leave_within_s: float = 5.0) -> None:
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._leave_within_s = leave_within_s
        self._calls = 0
        self._worked: tuple[float, float | None] = (0.0, None)
        """Seconds that ended calls took, and when the running one began; in one piece for readers on other threads."""

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, self._leave_within_s)

    def submit(self, call: Callable[[], Result]) -> Job[Result]:
        """Put a call into the line, with the context of the caller."""
        job = Job(call)
        self._jobs.put(job)
        return job

    async def run(self, call: Callable[[], Result]) -> Result:
        """Run a call on the thread and wait for what it returns or raises.

        A waiter that is cancelled before its call begins withdraws it; one cancelled later leaves it to finish unheard.
        """
        return await self.submit(call).outcome

    def statistics(self) -> ExecutorStatistics:
        """What the thread is doing right now."""
        ended_s, began_at = self._worked
        running_s = 0.0 if began_at is None else time.monotonic() - began_at
        return ExecutorStatistics(
            calls=self._calls, waiting=self._jobs.qsize(), running_s=running_s, busy_s=ended_s + running_s
        )

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._run(job)
            del job  # nothing of a request outlives it while the thread waits

    def _run(self, job: Job[Any]) -> None:
        ended_s, began_at = self._worked[0], time.monotonic()
        self._worked = (ended_s, began_at)
        tell = job.run(self._thread.name)
        self._worked = (ended_s + time.monotonic() - began_at, None)  # before the waiter hears of it, who may ask
        if tell is not None:
            self._calls += 1
            tell()
