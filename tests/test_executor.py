"""The one thread."""

import asyncio
import contextvars
import gc
import threading
import weakref

import pytest

from seat.executor import Executor


async def test_every_call_runs_on_the_same_thread_that_is_not_ours() -> None:
    """A hundred calls from as many tasks: one thread."""
    async with Executor() as executor:
        seen = await asyncio.gather(*(executor.run(threading.get_ident) for _ in range(100)))
    assert len(set(seen)) == 1
    assert threading.get_ident() not in seen


async def test_calls_run_in_the_order_they_came() -> None:
    """First come, first served."""
    order: list[int] = []
    async with Executor() as executor:
        await asyncio.gather(*(executor.run(lambda number=number: order.append(number)) for number in range(50)))
    assert order == list(range(50))


async def test_an_exception_reaches_its_waiter_and_nobody_else() -> None:
    """The thread lives on."""
    async with Executor() as executor:
        with pytest.raises(ZeroDivisionError):
            await executor.run(lambda: 1 / 0)
        assert await executor.run(lambda: 7) == 7


async def test_even_an_exit_ends_neither_the_thread_nor_the_loop() -> None:
    """A library that calls sys.exit fails its own call only."""

    def leave() -> None:
        raise SystemExit(3)

    async with Executor() as executor:
        with pytest.raises(RuntimeError, match="SystemExit"):
            await executor.run(leave)
        assert await executor.run(lambda: 7) == 7


async def test_a_call_whose_waiter_has_gone_is_skipped() -> None:
    """Cancelled before it begins, a call never runs."""
    release, ran = threading.Event(), []
    async with Executor() as executor:
        blocking = asyncio.create_task(executor.run(release.wait))
        doomed = asyncio.create_task(executor.run(lambda: ran.append(1)))
        await asyncio.sleep(0)
        doomed.cancel()
        await asyncio.wait([doomed])
        release.set()
        await blocking
        await executor.run(lambda: None)
    assert ran == []


async def test_a_call_is_taken_back_or_has_begun() -> None:
    """Exactly one of both; who waits for one that was taken back hears so."""
    begun, release, calls = threading.Event(), threading.Event(), list[int]()
    async with Executor() as executor:
        running = executor.submit(lambda: (begun.set(), release.wait(5)))
        waiting = executor.submit(lambda: calls.append(1))
        await asyncio.to_thread(begun.wait, 5)
        assert (running.withdraw(), waiting.withdraw(), waiting.withdraw()) == (False, True, False)
        assert waiting.outcome.cancelled()
        release.set()
        await running.outcome
    assert calls == []


async def test_context_variables_travel_with_a_call() -> None:
    """What a task binds is seen on the thread."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    async with Executor() as executor:
        variable.set("here")
        assert await executor.run(variable.get) == "here"


async def test_nothing_of_a_call_outlives_it() -> None:
    """While the thread waits for work it holds neither argument nor result."""

    class Waveform:
        pass

    async with Executor() as executor:
        waveform = Waveform()
        trace = weakref.ref(waveform)
        await executor.run(lambda held=waveform: held)
        del waveform
        await executor.run(lambda: None)
        gc.collect()
        assert trace() is None


async def test_statistics_tell_what_runs_and_what_waits() -> None:
    """A supervisor sees a call that does not end."""
    begun, release = threading.Event(), threading.Event()
    async with Executor() as executor:
        calls = [asyncio.create_task(executor.run(lambda: (begun.set(), release.wait()))) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 5)
        during = executor.statistics()
        release.set()
        await asyncio.gather(*calls)
        after = executor.statistics()
    assert (during.calls, during.waiting) == (0, 2)
    assert during.running_s > 0
    assert (after.calls, after.waiting, after.running_s) == (3, 0, 0.0)


async def test_leaving_does_not_wait_for_a_call_that_hangs() -> None:
    """A thread that is stuck in a driver cannot be joined; the process must still be able to end."""
    begun, release = threading.Event(), threading.Event()
    async with Executor(leave_within_s=0.05) as executor:
        stuck = asyncio.create_task(executor.run(lambda: (begun.set(), release.wait())))
        await asyncio.to_thread(begun.wait, 5)
    assert not stuck.done()
    release.set()
    await asyncio.wait([stuck])


def test_a_call_that_ends_after_its_loop_is_no_fault() -> None:
    """As where a stop did not wait for it: nobody is left to be told, and the thread says nothing of that."""
    begun, release = threading.Event(), threading.Event()
    faults: list[threading.ExceptHookArgs] = []

    async def leave() -> threading.Thread:
        async with Executor(leave_within_s=0.05) as executor:
            executor.submit(lambda: (begun.set(), release.wait()))
            await asyncio.to_thread(begun.wait, 5)
        return executor._thread

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading, "excepthook", faults.append)
        thread = asyncio.run(leave())
        release.set()
        thread.join(5)
    assert not thread.is_alive()
    assert faults == []
