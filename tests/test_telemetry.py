"""What is told of a request: spans, read through the SDK's own exporter, and facts of its line."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from seat import telemetry
from seat.errors import MemoryLimit
from seat.executor import Executor
from seat.memory import Governor
from seat.meter import MIB
from seat.queueing import QueueLimits
from seat.recognizer import SAMPLE_RATE
from seat.scheduler import Scheduler
from seat.transcript import Timings
from tests.fakes import FakeMeter, FakeRecognizer, speech

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module")
def tracer() -> trace.Tracer:
    """A tracer of the process's provider, which can be set only once."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    return trace.get_tracer("test")


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def _batches() -> list[ReadableSpan]:
    return [span for span in EXPORTER.get_finished_spans() if span.name == telemetry.BATCH_SPAN]


@asynccontextmanager
async def _scheduler(recognizer: FakeRecognizer, cap_mib: int | None = None) -> AsyncIterator[Scheduler]:
    governor = Governor(recognizer.meter, cap=None if cap_mib is None else cap_mib * MIB, returns=True)
    governor.settle(16)
    limits = QueueLimits(audio_s=100, batch_s=60)
    async with Executor() as executor, Scheduler(executor, recognizer, governor, limits, lambda _: None) as scheduler:
        yield scheduler


async def test_a_batch_is_a_child_of_its_request_and_tells_what_it_took(tracer: trace.Tracer) -> None:
    """Seconds of audio, windows, attention; rest before, peak, rest after, reserved and allocated in bytes."""
    meter = FakeMeter()
    clip = speech([1, 2])
    async with _scheduler(FakeRecognizer(before=meter.hunger(2), meter=meter)) as scheduler:
        with tracer.start_as_current_span("request") as request:
            await scheduler.recognize([clip])
    (batch,) = _batches()
    assert batch.parent is not None
    assert (batch.parent.span_id, batch.context.trace_id) == (
        request.get_span_context().span_id,
        request.get_span_context().trace_id,
    )
    assert batch.links == ()
    seconds = len(clip) / SAMPLE_RATE
    peak = round(2 * MIB * seconds)
    assert dict(batch.attributes or {}) == {
        telemetry.AUDIO_DURATION: seconds,
        telemetry.BATCH_SIZE: 1,
        telemetry.ATTENTION: "full",
        telemetry.REST_BEFORE: 150 * MIB,
        telemetry.PEAK: 150 * MIB + peak,
        telemetry.REST_AFTER: 150 * MIB,
        telemetry.RESERVED: 100 * MIB + peak,
        telemetry.ALLOCATED: 100 * MIB + peak,
    }


async def test_a_batch_of_several_requests_is_linked_to_the_others(tracer: trace.Tracer) -> None:
    """It has one parent, the most urgent request."""
    requests: list[trace.SpanContext] = []
    async with _scheduler(FakeRecognizer()) as scheduler:

        async def ask(digit: int) -> None:
            with tracer.start_as_current_span("request") as request:
                requests.append(request.get_span_context())
                await scheduler.recognize([speech([digit]), speech([digit])])

        await asyncio.gather(*(ask(digit) for digit in range(3)))
    (batch,) = _batches()
    assert batch.parent is not None
    assert batch.parent.span_id == requests[0].span_id
    assert [link.context.span_id for link in batch.links] == [request.span_id for request in requests[1:]]
    assert (batch.attributes or {})[telemetry.BATCH_SIZE] == 6
    assert telemetry.RESERVED not in (batch.attributes or {}), "there is no allocator of torch's on a CPU"


async def test_a_try_that_ran_out_of_memory_is_a_span_with_an_error(tracer: trace.Tracer) -> None:
    """By its code; both tries have one."""
    meter = FakeMeter()
    async with _scheduler(FakeRecognizer(before=meter.hunger(100), meter=meter), cap_mib=200) as scheduler:
        with tracer.start_as_current_span("request"), pytest.raises(MemoryLimit):
            await scheduler.recognize([speech([1])])
    assert [(batch.attributes or {})[telemetry.ERROR_TYPE] for batch in _batches()] == ["gpu_memory_limit"] * 2
    assert {batch.status.status_code for batch in _batches()} == {trace.StatusCode.ERROR}


async def test_where_nobody_traces_the_batch_is_the_root(tracer: trace.Tracer) -> None:  # noqa: ARG001
    """A request without a span."""
    async with _scheduler(FakeRecognizer()) as scheduler:
        await scheduler.recognize([speech([1])])
    assert [(batch.parent, batch.links) for batch in _batches()] == [(None, ())]


def test_the_line_of_a_request_has_its_memory() -> None:
    """Whole MiB."""
    line = telemetry.open_request()
    telemetry.note_timings(
        Timings(
            audio_s=1,
            decode_s=0,
            queue_s=0,
            inference_s=0,
            windows=1,
            batch_sizes=(1,),
            peak_nbytes=1500 * MIB + 7,
            rest_nbytes=1200 * MIB,
        )
    )
    assert (line["peak_mib"], line["rest_mib"]) == (1500, 1200)
