"""An event loop whose clock jumps, and a GPU thread that is a task of it: hours of traffic in milliseconds."""

from __future__ import annotations

import asyncio
import gc
import selectors
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from seat.executor import Job

Result = TypeVar("Result")

SWITCH_S = 0.0001
"""Seconds that a call in another thread takes."""


class _Jump(selectors.SelectSelector):
    """Waits for nothing: what the loop would wait for is added to its clock."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            assert timeout is not None, "everybody waits for something that nothing will ever bring about"
            self.now_s += max(timeout, 0.0)
        return events


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Time passes only where everybody waits for it."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        self.faults: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _loop, context: self.faults.append(context))

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._jump.now_s

    def run_in_executor(self, _executor: object, call: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """What would run in a thread runs here, a moment later."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(call(*args))
            except Exception as fault:  # noqa: BLE001  who waits for the thread hears of it
                future.set_exception(fault)

        self.call_later(SWITCH_S, run)
        return future


class SimulatedExecutor:
    """Stands in for `seat.executor.Executor`: one call at a time, each for as long as it is told."""

    def __init__(self, takes_s: Callable[[], float]) -> None:
        self._takes_s = takes_s
        self._jobs: asyncio.Queue[Job[Any]] = asyncio.Queue()
        self._call_s = self._into_call_s = 0.0

    def clock(self) -> float:
        """The loop's time; within a call, from `pass_time` on, the time at which it will have ended."""
        return asyncio.get_running_loop().time() + self._into_call_s

    def pass_time(self) -> None:
        """For what is called: let its time pass for whoever asks in it. The others have theirs meanwhile."""
        self._into_call_s = self._call_s

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._serve())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()

    def submit(self, call: Callable[[], Result]) -> Job[Result]:
        """As the real one."""
        job = Job(call)
        self._jobs.put_nowait(job)
        return job

    async def run(self, call: Callable[[], Result]) -> Result:
        """As the real one."""
        return await self.submit(call).outcome

    async def _serve(self) -> None:
        while True:
            job = await self._jobs.get()
            self._call_s = self._takes_s()
            tell = job.run("simulated")
            self._into_call_s = 0.0
            if tell is not None:
                await asyncio.sleep(self._call_s)
                tell()


def simulate(traffic: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end; whatever was raised where nobody could hear it is a failure."""
    gc.freeze()  # as a seat does once it has loaded: else every shortage collects all of NeMo, for half a second
    try:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            result = runner.run(traffic)
            loop = runner.get_loop()
            assert isinstance(loop, SimulatedLoop)
            assert loop.faults == []
    finally:
        gc.unfreeze()
    return result
