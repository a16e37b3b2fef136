"""The spans below a request, read through the SDK's own exporter."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from seat.errors import MemoryLimit
from seat.executor import Executor
from seat.memory import Footprint, Governor
from seat.meter import MIB
from seat.queueing import QueueLimits
from seat.recognizer import SAMPLE_RATE
from seat.scheduler import Scheduler
from seat.telemetry import Origin, batch_span, here, names, open_request, recognizing, speaking, stage, tell_footprint
from tests.fakes import FakeMeter, FakeRecognizer, speech

Spans = Callable[[str], list[ReadableSpan]]


@asynccontextmanager
async def _scheduler(recognizer: FakeRecognizer, cap_mib: int | None = None) -> AsyncIterator[Scheduler]:
    governor = Governor(recognizer.meter, cap=None if cap_mib is None else cap_mib * MIB, returns="always")
    governor.settle(16)
    limits = QueueLimits(audio_s=100, batch_s=60)
    async with Executor() as executor, Scheduler(executor, recognizer, governor, limits, lambda _: None) as scheduler:
        yield scheduler


async def test_a_batch_is_a_child_of_its_request_and_tells_what_it_took(tracer: trace.Tracer, spans: Spans) -> None:
    """Seconds of audio, windows, attention; rest before, peak, rest after, reserved and allocated in bytes."""
    meter = FakeMeter()
    clip = speech([1, 2])
    async with _scheduler(FakeRecognizer(before=meter.hunger(2), meter=meter)) as scheduler:
        with tracer.start_as_current_span("request") as request:
            await scheduler.recognize([clip])
    (batch,) = spans(names.BATCH_SPAN)
    assert batch.parent is not None
    assert (batch.parent.span_id, batch.context.trace_id) == (
        request.get_span_context().span_id,
        request.get_span_context().trace_id,
    )
    assert batch.links == ()
    seconds = len(clip) / SAMPLE_RATE
    peak = round(2 * MIB * seconds)
    assert dict(batch.attributes or {}) == {
        names.AUDIO: seconds,
        names.SIZE: 1,
        names.PADDING: 0,
        names.ATTENTION: "full",
        names.REST_BEFORE: 150 * MIB,
        names.PEAK: 150 * MIB + peak,
        names.REST_AFTER: 150 * MIB,
        names.RESERVED: 100 * MIB + peak,
        names.ALLOCATED: 100 * MIB + peak,
    }


async def test_a_batch_of_several_requests_is_linked_to_the_others(tracer: trace.Tracer, spans: Spans) -> None:
    """It has one parent, the most urgent request."""
    requests: list[trace.SpanContext] = []
    async with _scheduler(FakeRecognizer()) as scheduler:

        async def ask(digit: int) -> None:
            with tracer.start_as_current_span("request") as request:
                requests.append(request.get_span_context())
                await scheduler.recognize([speech([digit])])

        await asyncio.gather(*(ask(digit) for digit in range(3)))
    (batch,) = spans(names.BATCH_SPAN)
    assert batch.parent is not None
    assert batch.parent.span_id == requests[0].span_id
    assert [link.context.span_id for link in batch.links] == [request.span_id for request in requests[1:]]
    assert (batch.attributes or {})[names.SIZE] == 3
    assert names.RESERVED not in (batch.attributes or {}), "there is no allocator of torch's on a CPU"


async def test_a_try_that_ran_out_of_memory_is_a_span_with_an_error(tracer: trace.Tracer, spans: Spans) -> None:
    """By its code; both tries have one."""
    meter = FakeMeter()
    async with _scheduler(FakeRecognizer(before=meter.hunger(100), meter=meter), cap_mib=200) as scheduler:
        with tracer.start_as_current_span("request"), pytest.raises(MemoryLimit):
            await scheduler.recognize([speech([1])])
    assert [(batch.attributes or {})[names.ERROR_TYPE] for batch in spans(names.BATCH_SPAN)] == ["gpu_memory_limit"] * 2
    assert {batch.status.status_code for batch in spans(names.BATCH_SPAN)} == {trace.StatusCode.ERROR}


async def test_where_nobody_traces_the_batch_is_the_root(spans: Spans) -> None:
    """A request without a span."""
    async with _scheduler(FakeRecognizer()) as scheduler:
        await scheduler.recognize([speech([1])])
    assert [(batch.parent, batch.links) for batch in spans(names.BATCH_SPAN)] == [(None, ())]


def _batch(audio_s: float = 1.0) -> None:
    """One batch of the request that this task works for."""
    with batch_span([here()], audio_s=audio_s, padded_s=audio_s, windows=1, attention="full") as batch:
        tell_footprint(batch, Footprint(rest_before=1, peak=int(10 * audio_s), rest_after=2, allocator=None))


def test_the_time_in_the_queue_ends_where_the_first_batch_begins(tracer: trace.Tracer, spans: Spans) -> None:
    """Both hang below the request; later batches change nothing."""
    with tracer.start_as_current_span("request"), recognizing():
        _batch()
        _batch()
    ((queue,), batches, (request,)) = spans(names.QUEUE_SPAN), spans(names.BATCH_SPAN), spans("request")
    assert {span.parent.span_id for span in [queue, *batches] if span.parent} == {request.context.span_id}
    assert queue.start_time <= queue.end_time <= batches[0].start_time + 1_000_000
    assert queue.end_time <= batches[1].start_time


def test_who_gives_up_in_the_queue_tells_how_long_it_waited(tracer: trace.Tracer, spans: Spans) -> None:
    """In the span, and in the line, which has no timings otherwise."""
    line = open_request()
    with pytest.raises(TimeoutError), tracer.start_as_current_span("request"), recognizing():
        raise TimeoutError
    (queue,) = spans(names.QUEUE_SPAN)
    assert (queue.attributes or {})[names.ERROR_TYPE] == "TimeoutError"
    assert line["queue_s"] >= 0


def test_a_batch_that_begins_while_its_request_gives_up_does_not_end_the_queue_again(spans: Spans) -> None:
    """The GPU thread and the event loop both end the wait: one of them does, and what it says of it is whole."""
    origin = Origin(context=trace.INVALID_SPAN_CONTEXT, queue=trace.get_tracer("test").start_span(names.QUEUE_SPAN))

    class _Meanwhile(TimeoutError):
        """Lets a batch begin while the wait is told to have failed."""

        @property
        def code(self) -> str:
            gpu = threading.Thread(target=origin.served)
            gpu.start()
            gpu.join()
            return "gave_up"

    origin.stop_waiting(_Meanwhile())
    (queue,) = spans(names.QUEUE_SPAN)
    assert (origin.batches, queue.status.is_ok) == (1, False)
    assert (queue.attributes or {})[names.ERROR_TYPE] == "gave_up"


def test_a_fault_after_the_queue_is_not_the_queues(tracer: trace.Tracer, spans: Spans) -> None:
    """Its span has ended by then, and the line's figure is left to who knows it."""
    line = open_request()

    def fails() -> None:
        with tracer.start_as_current_span("request"), recognizing():
            _batch()
            raise MemoryLimit

    with pytest.raises(MemoryLimit):
        fails()
    assert [span.status.is_ok for span in spans(names.QUEUE_SPAN)] == [True]
    assert line == {}


def test_the_trace_of_a_long_file_stays_bounded(tracer: trace.Tracer, spans: Spans) -> None:
    """An hour's file: 64 batches are told one by one, all further ones in one span, and nothing is lost in the sum."""
    with tracer.start_as_current_span("request"), recognizing():
        for number in range(120):
            _batch(audio_s=number + 1)
    assert len(spans(names.BATCH_SPAN)) == names.SPANS_PER_REQUEST == 64
    (rest,) = spans(names.REMAINDER_SPAN)
    assert dict(rest.attributes or {}) == {
        names.BATCHES: 56,
        names.AUDIO: sum(range(65, 121)),
        names.WINDOWS: 56,
        names.REST_BEFORE: 1,
        names.PEAK: 1200,
        names.REST_AFTER: 2,
    }
    assert spans(names.BATCH_SPAN)[-1].end_time <= rest.start_time + 1_000_000
    assert rest.start_time <= rest.end_time


def test_the_trace_of_a_live_session_stays_bounded(tracer: trace.Tracer, spans: Spans) -> None:
    """However long somebody speaks; and silence before the first word is no time in a queue."""
    with tracer.start_as_current_span("request"), speaking():
        for _ in range(names.SPANS_PER_REQUEST + 6):
            _batch()
    (request,), batches, (rest,) = spans("request"), spans(names.BATCH_SPAN), spans(names.REMAINDER_SPAN)
    assert len(batches) == names.SPANS_PER_REQUEST
    assert {span.parent.span_id for span in [*batches, rest] if span.parent} == {request.context.span_id}
    assert (rest.attributes or {})[names.BATCHES] == 6
    assert spans(names.QUEUE_SPAN) == []


def test_a_crowded_request_does_not_hide_its_neighbours_batch(tracer: trace.Tracer, spans: Spans) -> None:
    """The batch is told in the trace that has room."""
    with tracer.start_as_current_span("long"), recognizing():
        for _ in range(names.SPANS_PER_REQUEST):
            _batch()
        long = here()
        with tracer.start_as_current_span("clip"), recognizing():
            origins = [long, here()]
            with batch_span(origins, audio_s=1, padded_s=2, windows=2, attention="full"):
                pass
    shared = spans(names.BATCH_SPAN)[-1]
    (clip,) = spans("clip")
    assert (shared.parent and shared.parent.span_id, shared.links) == (clip.context.span_id, ())
    assert [(rest.attributes or {})[names.BATCHES] for rest in spans(names.REMAINDER_SPAN)] == [1]


def test_a_stage_is_a_span_and_a_field(tracer: trace.Tracer, spans: Spans) -> None:
    """Also where it fails; the span says by its class how, and repeats no sentence."""
    line = open_request()
    with tracer.start_as_current_span("request"), stage("assemble"):
        pass
    with pytest.raises(ValueError, match="secret"), stage("decode"):
        int("secret")
    assert line.keys() == {"assemble_s", "decode_s"}
    (failed,) = spans(names.DECODE_SPAN)
    assert (failed.attributes, failed.events, failed.status.description) == ({names.ERROR_TYPE: "ValueError"}, (), None)
    assert len(spans(names.ASSEMBLE_SPAN)) == 1
