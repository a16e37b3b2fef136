"""What collectors read of a seat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seat.executor import ExecutorStatistics
from seat.gauges import FIGURES, TOLD, Shared, model, outside, states
from seat.memory import MemoryStatistics
from seat.meter import Outside, Reported
from seat.queueing import QueueStatistics
from seat.scheduler import SchedulerStatistics
from seat.service import ServiceStatistics, State
from seat.streams import StreamStatistics
from seat.telemetry import names
from tests.fakes import INFO

MEMORY = MemoryStatistics(cap=9, rest=5, peak=7, outside=Outside(nbytes=2, source="nvml"), refusals=3, nbytes_per_s=1)
WARM = ServiceStatistics(
    state=State.READY,
    thread=ExecutorStatistics(calls=1, waiting=0, running_s=0.5, busy_s=2.0),
    work=SchedulerStatistics(queue=QueueStatistics(requests=1, windows=4, audio_s=60.5), running=1, batches=2),
    memory=MEMORY,
    streams=StreamStatistics(open=2, opened=9, audio_s=30.0, chunks=20, waiting_s=2.5),
    weights=None,
    info=INFO,
    attention="local",
    graphs="off",
)
COLD = ServiceStatistics(
    state=State.LOADING,
    thread=ExecutorStatistics(calls=0, waiting=0, running_s=0.0, busy_s=0.0),
    **dict.fromkeys(("work", "memory", "weights", "streams", "info", "attention", "graphs")),
)


@pytest.mark.parametrize(
    "metric, warm, cold",
    [
        (names.MEMORY_CAP, 9, None),
        (names.MEMORY_REST, 5, None),
        (names.MEMORY_PEAK, 7, None),
        (names.OOM_REJECTIONS, 3, 0),
        (names.QUEUE_LENGTH, 1, 0),
        (names.QUEUE_WINDOWS, 4, 0),
        (names.QUEUE_AUDIO, 60.5, 0),
        (names.LIVE_SESSIONS, 2, 0),
        (names.LIVE_WAITING, 2.5, 0),
        (names.CALL_RUNNING, 0.5, 0.0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_figure_is_the_one_it_is_called(metric: names.Metric, warm: float, cold: float | None) -> None:
    """And before the model has warmed up, nothing stands where nothing is known."""
    assert (FIGURES[metric](WARM), FIGURES[metric](COLD)) == (warm, cold)


def test_a_collection_has_one_record() -> None:
    """Whatever it asks for, in whatever order; one that could not be read is no older one."""
    records = iter([1, 2, None, 3, 4])

    def read() -> int:
        if (record := next(records)) is None:
            raise EOFError
        return record

    shared, metrics = Shared(read), list(FIGURES)
    assert {1} == {shared.record_for(metric) for metric in metrics}
    assert {2} == {shared.record_for(metric) for metric in reversed(metrics)}
    with pytest.raises(EOFError):
        shared.record_for(metrics[0])
    assert {3} == {shared.record_for(metric) for metric in metrics[1:]}
    assert {4} == {shared.record_for(metric) for metric in metrics}


def test_every_metric_that_is_read_has_a_reading() -> None:
    """None of the table is forgotten."""
    read = {metric for metric in names.METRICS if metric.kind in {"observed", "counted"}}
    alone = {
        *(names.MEMORY_OUTSIDE, names.SEAT_STATE, names.MODEL_INFO),
        *(names.PROCESS_MEMORY, names.PROCESS_UPTIME),
    }
    assert read == {*FIGURES, *TOLD, *alone}


def test_no_cap_is_no_number() -> None:
    """Not an infinite one, and not 0, which alerts would compare with."""
    unlimited = replace(WARM, memory=replace(MEMORY, cap=None))
    assert FIGURES[names.MEMORY_CAP](unlimited) is None


def test_what_others_are_told() -> None:
    """Process, all together, and what there is; a driver that is blind tells nothing."""
    reported = Reported(process=1, taken=2, total=None)
    assert [TOLD[metric](reported) for metric in (names.MEMORY_REPORTED, names.DEVICE_USAGE, names.DEVICE_LIMIT)] == [
        1,
        2,
        None,
    ]


def test_the_seat_is_in_one_state() -> None:
    """All others are 0, so that none lingers."""
    readings = {attributes[names.STATE]: value for value, attributes in states(State.STALLED)}
    assert readings == {state.value: float(state is State.STALLED) for state in State}


def test_what_is_in_force_stands_beside_what_was_asked() -> None:
    """With every label of the table; none before the model is loaded."""
    ((value, about),) = model(WARM, "auto")
    assert value == 1
    assert tuple(about) == names.ABOUT_MODEL
    assert (about["asr.device"], about["asr.device.asked"], about["asr.model.attention"]) == ("cpu", "auto", "local")
    assert list(model(COLD, "auto")) == []
    assert [*outside(WARM), *outside(COLD)] == [(2, {names.SOURCE: "nvml"})]
