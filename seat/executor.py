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
from types import TracebackType
from typing import Any, Self, TypeVar

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


@dataclass(slots=True)
class _Item:
    context: contextvars.Context
    call: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Executor:
    """One daemon thread that runs calls in the order of their arrival; an async context manager.

    A daemon, because a call that hangs in CUDA can be neither cancelled nor joined: leaving waits for a limited time.
    """

    def __init__(self, *, name: str = "gpu", leave_within_s: float = 5.0) -> None:
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._leave_within_s = leave_within_s
        self._calls = 0
        self._began_at: float | None = None

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._items.put(None)
        await asyncio.to_thread(self._thread.join, self._leave_within_s)

    async def run(self, call: Callable[[], Result]) -> Result:
        """Run a call on the thread and wait for what it returns or raises.

        A waiter that is cancelled before its call begins withdraws it; one cancelled later leaves it to finish unheard.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._items.put(_Item(context=contextvars.copy_context(), call=call, future=future, loop=loop))
        return await future

    def statistics(self) -> ExecutorStatistics:
        """What the thread is doing right now."""
        began_at = self._began_at
        return ExecutorStatistics(
            calls=self._calls,
            waiting=self._items.qsize(),
            running_s=0.0 if began_at is None else time.monotonic() - began_at,
        )

    def _serve(self) -> None:
        while (item := self._items.get()) is not None:
            self._run(item)
            del item  # nothing of a request outlives it while the thread waits

    def _run(self, item: _Item) -> None:
        if item.future.cancelled():
            return
        self._began_at = time.monotonic()
        setter, answer = self._outcome(item)
        self._began_at = None  # before the waiter hears of it, who may ask at once
        self._calls += 1
        _answer(item, setter, answer)

    def _outcome(self, item: _Item) -> tuple[Callable[[Any], None], Any]:
        try:
            return item.future.set_result, item.context.run(item.call)
        except Exception as fault:  # noqa: BLE001  whatever it is, the waiter must hear of it and the thread must live
            return item.future.set_exception, fault
        except BaseException as fault:  # noqa: BLE001  an exit raised in a task would end the event loop
            failure = RuntimeError(f"a call on the {self._thread.name} thread raised {type(fault).__name__}")
            failure.__cause__ = fault
            return item.future.set_exception, failure


def _answer(item: _Item, setter: Callable[[Any], None], value: object) -> None:
    """Resolve a future from the thread, unless its waiter or its loop is gone."""

    def resolve() -> None:
        if not item.future.done():
            setter(value)

    if not item.loop.is_closed():
        item.loop.call_soon_threadsafe(resolve)
