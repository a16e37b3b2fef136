"""What is counted, read through the SDK's own reader."""

import math
from collections.abc import Callable

import pytest

from seat import settings
from seat.errors import MemoryLimit
from seat.gauges import publish
from seat.service import Service, ServiceStatistics
from seat.telemetry import count_live_audio, names, observe, open_request, record
from seat.telemetry.metrics import begin_at_zero, known_method, record_batch, record_request
from tests.fakes import FakeRecognizer

Measured = Callable[[str], dict[tuple[str, ...], float]]

NOT_FINITE = [math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("value", NOT_FINITE)
def test_no_value_enters_that_is_not_finite(measured: Measured, caplog: pytest.LogCaptureFixture, value: float) -> None:
    """Neither recorded nor read: one infinite sum spoils an average for ever. Nor does the log fill with warnings."""
    recorded = [metric for metric in names.METRICS if metric.kind in {"histogram", "gauge", "counter"}]
    for metric in recorded:
        record(metric, value)
    observe(names.QUEUE_AUDIO, lambda: [(value, {})])
    for metric in [*recorded, names.QUEUE_AUDIO]:
        assert all(map(math.isfinite, measured(metric.name).values())), metric.name
    assert caplog.records == []


@pytest.mark.parametrize("value", NOT_FINITE)
def test_no_field_of_a_line_brings_one_in(measured: Measured, value: float) -> None:
    """Whatever its facts are, and a division by no audio neither."""
    fields = [*(f"{stage}_s" for stage in names.STAGES), "audio_s"]
    record_request(dict.fromkeys(fields, value), {}, value)
    record_request({"audio_s": 0.0, "inference_s": 1.0}, {}, 1.0)
    record_request({"audio_s": 1e-320, "inference_s": 1e300}, {}, 1.0)
    for metric in (names.REQUEST_DURATION, names.STAGE_DURATION, names.AUDIO_DURATION, names.REAL_TIME_FACTOR):
        assert all(map(math.isfinite, measured(metric.name).values())), metric.name


def test_a_request_is_counted_once_in_every_metric(measured: Measured) -> None:
    """Stages by their names, audio by the client's, what was turned away by its code."""
    record_request({"audio_s": 4.0, "inference_s": 1.0, "queue_s": 2.5, "client": "ann"}, {}, 9.0)
    record_request({"error": "queue_full"}, {}, 0.1)
    record_request({"error": "client_disconnected"}, {}, 0.1)
    record_request({"error": "invalid_audio"}, {}, 0.1)
    assert measured("asr.audio.duration")[("ann",)] == 4.0
    assert measured("asr.stage.duration")[("queue",)] == 2.5
    assert measured("asr.admission.rejections") == {("queue_full",): 1}
    assert measured("asr.cancellations") == {(): 1}


def test_a_live_session_is_no_request_of_some_length(measured: Measured) -> None:
    """No histogram has it; its audio is counted as it comes, and its error by its code."""
    before = {metric: measured(metric.name) for metric in names.METRICS if metric.kind == "histogram"}
    open_request(client="ann")
    count_live_audio(0.5)
    count_live_audio(0.25)
    record_request({"audio_s": 0.75, "queue_s": 0.1, "client": "ann"}, {names.STATUS: 101}, 3600.0)
    record_request({"error": "too_many_sessions"}, {names.STATUS: 101}, 0.1)
    assert {metric: measured(metric.name) for metric in before} == before
    assert measured("asr.live.audio")[("ann",)] == 0.75
    assert measured("asr.admission.rejections")[("too_many_sessions",)] == 1
    assert measured("asr.live.errors")[("too_many_sessions",)] == 1


def test_counters_begin_at_zero(measured: Measured) -> None:
    """All of the closed set: Prometheus sees no increase in a series that begins at 1."""
    begin_at_zero()
    assert measured("asr.admission.rejections").keys() == {(code,) for code in names.REJECTIONS}
    assert {"queue_full", "model_loading", "gpu_memory_limit", "exceeds_memory"} <= set(names.REJECTIONS)
    assert {(code,) for code in (*names.FAULTS, *names.LIVE_REFUSALS)} <= measured("asr.live.errors").keys()
    assert measured("asr.stalls") == {(): 0}
    assert ("anonymous",) in measured("asr.live.audio")


def test_labels_come_from_closed_sets(measured: Measured) -> None:
    """A method that a client made up, and an error whose class a library may change."""
    assert [known_method(method) for method in ("POST", "FROBISH")] == ["POST", "_OTHER"]
    record_batch(1.0, windows=2, padding=0.1, attention="full", fault=MemoryLimit())
    record_batch(1.0, windows=2, padding=0.1, attention="full", fault=ZeroDivisionError())
    assert {("full", "gpu_memory_limit"), ("full", "_OTHER")} <= measured("asr.batch.duration").keys()


def test_buckets_reach_from_a_clip_on_a_card_to_a_lost_patience() -> None:
    """10 ms to a minute, finely enough that a p99 is right within a factor of two and a half."""
    assert (names.SECONDS[0], names.SECONDS[-1]) == (0.01, 60.0)
    for metric in names.METRICS:
        bounds = metric.bounds or ()
        assert list(bounds) == sorted(set(bounds))
        assert (metric.kind == "histogram") == bool(bounds)
    assert max(b / a for a, b in zip(names.SECONDS, names.SECONDS[1:], strict=False)) <= 2.5


def test_a_collection_reads_a_seat_once(measured: Measured) -> None:
    """So that its figures are of one moment, and a driver is asked once."""

    class Counted(Service):
        read = reported_read = 0

        def statistics(self) -> ServiceStatistics:
            self.read += 1
            return super().statistics()

        def reported(self) -> None:
            self.reported_read += 1

    service = Counted(settings.read({}), FakeRecognizer, print)
    publish(service, "auto")
    for collections in (1, 2):
        assert measured("asr.seat.state")[("loading",)] == 1
        assert (service.read, service.reported_read) == (collections, collections)
