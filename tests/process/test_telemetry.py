"""A hundred mixed requests on a real process, and what a collector, a scraper and the log have of them afterwards."""

from __future__ import annotations

import json
import re
import secrets
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from websockets.sync.client import connect

from seat.telemetry import names
from tests.process.conftest import Start
from tests.process.otlp import PROTOCOLS, Receiver, facts, receiving
from tests.process.seats import PATIENCE_S, TRANSCRIPTIONS, FakeSeat, said, tell, until

pytestmark = pytest.mark.process

KEYS = {"ann": "one-key", "key2": "another-key"}
LEAVE_WITHIN_S = 10.0
REQUESTS = 100
STAGES = [names.DECODE_SPAN, names.QUEUE_SPAN, names.ASSEMBLE_SPAN, names.RENDER_SPAN]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What was seen of one run."""

    receiver: Receiver
    asked: dict[str, tuple[str, str]]
    """Trace and span of the caller, in hexadecimal, by the request's id."""
    lines: list[dict[str, Any]]
    exposition: str
    log: str


def _post(seat: FakeSeat, number: int, traceparent: str) -> None:
    """One of ten kinds of requests: clips, files of several windows, and all that can be wrong with one."""
    headers = {
        "x-request-id": f"mixed-{number}",
        "traceparent": traceparent,
        "authorization": f"Bearer {[*KEYS.values()][number % 2]}",
    }
    kind, fields, path = number % 10, {"model": "whisper-1"}, TRANSCRIPTIONS
    file = said(number % 6, number % 4)
    if kind == 4:
        file = said(*([number % 6] * 12))
    elif kind == 5:
        file = b"no audio"
    elif kind == 6:
        headers["authorization"] = "Bearer stolen"
    elif kind == 7:
        fields = {"model": "unknown"}
    elif kind == 8:
        file = said(7)
    elif kind == 9:
        path = f"/v1/{secrets.token_hex(4)}"
    httpx.post(
        seat.url + path,
        headers=headers,
        data=fields,
        files={"file": ("upload", file)},
        timeout=PATIENCE_S,
        trust_env=False,
    )


@pytest.fixture(scope="module", params=PROTOCOLS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """A seat that was asked by sixteen callers at a time, once left by one of them, and stopped."""
    with ExitStack() as stack:
        receiver, environment = stack.enter_context(receiving(request.param))
        keys = f"ann:{KEYS['ann']},{KEYS['key2']}"
        seat = stack.enter_context(FakeSeat(tmp_path_factory.mktemp("told"), SEAT_API_KEYS=keys, **environment))
        seat.wait_for("/health/ready")
        asked = {f"mixed-{number}": (secrets.token_hex(16), secrets.token_hex(8)) for number in range(REQUESTS)}
        with ThreadPoolExecutor(16) as pool:
            for number, (trace, span) in enumerate(asked.values()):
                pool.submit(_post, seat, number, f"00-{trace}-{span}-01")
        lines = until(
            lambda: len(found := seat.log_lines(event="request")) >= REQUESTS and found, what="a line for every request"
        )
        exposition = seat.get("/metrics").text
        seat.stop()
        assert seat.exit_code(within_s=LEAVE_WITHIN_S) == 0
        yield Ran(receiver=receiver, asked=asked, lines=lines, exposition=exposition, log=seat.log_text())


def _scraped(text: str, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """Values by labels, without those that are empty."""
    found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
    return {frozenset(re.findall(r'(\w+)="([^"]+)"', labels)): float(value) for labels, value in found}


def _server(ran: Ran) -> dict[str, Span]:
    """The span of each request, by its id."""
    spans = [span for span in ran.receiver.spans if span.kind == Span.SPAN_KIND_SERVER]
    assert len(spans) == len(ran.lines)
    return {facts(span.attributes)[names.REQUEST_ID]: span for span in spans}


def test_every_request_is_a_trace_below_its_caller(ran: Ran) -> None:
    """The server span continues the caller's trace; its name, status and codes are those of the line."""
    server = _server(ran)
    for line in ran.lines:
        span = server[line["request_id"]]
        about = facts(span.attributes)
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == ran.asked[line["request_id"]]
        assert line["trace_id"] == span.trace_id.hex()
        assert (about[names.STATUS], about.get(names.ERROR_TYPE)) == (line["status"], line.get("error"))
        assert span.name == (f"POST {TRANSCRIPTIONS}" if line["path"] == TRANSCRIPTIONS else "POST")
        assert (span.status.code == Status.STATUS_CODE_ERROR) == (line["status"] >= 500)
    assert ran.receiver.senders[0]["service.name"] == "seat"


def test_every_transcript_has_its_whole_trace(ran: Ran) -> None:
    """Decode, queue, assemble and render below the request; every batch below it or linked to it, with its memory."""
    server = _server(ran)
    below: dict[bytes, list[Span]] = {}
    for span in ran.receiver.spans:
        for parent in {span.parent_span_id, *(link.span_id for link in span.links)}:
            below.setdefault(parent, []).append(span)
    answered = [line for line in ran.lines if line["status"] == 200]
    assert len(answered) == REQUESTS / 2
    shared = 0
    for line in answered:
        spans = below[server[line["request_id"]].span_id]
        batches = [facts(span.attributes) for span in spans if span.name == names.BATCH_SPAN]
        assert sorted(STAGES) == sorted(span.name for span in spans if span.name != names.BATCH_SPAN)
        assert sum(batch[names.SIZE] for batch in batches) >= line["windows"]
        assert line["peak_mib"] == max(batch[names.PEAK] for batch in batches if names.ERROR_TYPE not in batch) // 2**20
        for batch in batches:
            assert {names.REST_BEFORE, names.REST_AFTER, names.AUDIO, names.ATTENTION} <= batch.keys()
            assert batch[names.REST_BEFORE] <= batch[names.PEAK]
        shared += any(batch[names.SIZE] > line["windows"] for batch in batches)
    assert shared, "some requests were served by one batch"


def test_metrics_add_up_with_the_log(ran: Ran) -> None:
    """Requests by status and seconds of audio, as scraped and as sent by OTLP."""
    by_status = Counter(line["status"] for line in ran.lines)
    assert by_status == {200: 50, 400: 10, 401: 10, 404: 20, 500: 10}
    audio_s = sum(line.get("audio_s", 0) for line in ran.lines)
    scraped = _scraped(ran.exposition, "http_server_request_duration_seconds_count")
    counted: Counter[int] = Counter()
    for labels, count in scraped.items():
        counted[int(dict(labels)["http_response_status_code"])] += int(count)
    assert by_status == counted
    heard = _scraped(ran.exposition, "asr_audio_duration_seconds_sum")
    assert {dict(labels)["asr_client"] for labels in heard} == set(KEYS)
    assert sum(heard.values()) == pytest.approx(audio_s, abs=1e-6)

    sent = ran.receiver.metrics
    requests = sent[names.REQUEST_DURATION.name]
    assert sum(point.count for point in requests) == REQUESTS
    assert sum(point.sum for point in requests) == pytest.approx(sum(line["total_s"] for line in ran.lines))
    assert sum(point.sum for point in sent[names.AUDIO_DURATION.name]) == pytest.approx(audio_s, abs=1e-6)
    for stage in names.STAGES:
        took = [line[f"{stage}_s"] for line in ran.lines if f"{stage}_s" in line]
        (point,) = [p for p in sent[names.STAGE_DURATION.name] if facts(p.attributes)[names.STAGE] == stage]
        assert (point.count, point.sum) == (len(took), pytest.approx(sum(took), abs=1e-6))


def test_metrics_are_the_ones_that_are_listed(ran: Ran) -> None:
    """By name, unit and labels; nothing infinite, and no label that a client could choose."""
    listed = {metric.name: metric for metric in names.METRICS}
    assert set(ran.receiver.metrics) == set(listed) - {names.MEMORY_CAP.name}, "there is no cap on a CPU"
    for name, points in ran.receiver.metrics.items():
        assert ran.receiver.units[name] == listed[name].unit
        assert {fact.key for point in points for fact in point.attributes} <= set(listed[name].attributes), name
    scraped = set(re.findall(r"^# TYPE (\w+)", ran.exposition, re.MULTILINE)) - {"target_info"}
    assert scraped == {metric.prometheus for metric in listed.values()} - {names.MEMORY_CAP.prometheus}
    values = re.findall(r" (\S+)$", ran.exposition, re.MULTILINE)
    assert not {value for value in values if re.search(r"inf|nan", value, re.IGNORECASE)}


def test_nobodys_key_is_told(ran: Ran) -> None:
    """The line names whose it was; the key is in no line, no label and no span."""
    assert Counter(line.get("client") for line in ran.lines)["ann"] > 20
    told = ran.log + ran.exposition + str(ran.receiver.spans) + str(ran.receiver.metrics)
    for key in [*KEYS.values(), "stolen"]:
        assert key not in told


def test_a_fault_after_the_status_is_an_error_too(tmp_path: Path) -> None:
    """Of a stream and a live session, where it is ours; its counter was there before, or nobody would see it rise."""
    with (
        receiving(PROTOCOLS[0]) as (receiver, environment),
        FakeSeat(tmp_path, SEAT_MAX_BATCH_S="5", SEAT_MAX_LIVE_SESSIONS="0", **environment) as seat,
    ):
        before = _scraped(seat.wait_for("/health/ready").get("/metrics").text, "asr_live_errors_total")
        assert seat.post(said(*[1, 2, 3] * 4, 7), stream="true").status_code == 200
        for query in ("", "?sample_rate=fast"):
            with connect(f"{seat.url}/v1/audio/stream{query}".replace("http", "ws"), proxy=None) as socket:
                assert json.loads(socket.recv())["type"] == "error"
        until(lambda: len(seat.log_lines(event="request")) == 3, what="a line for each")
        after = _scraped(seat.get("/metrics").text, "asr_live_errors_total")
        seat.stop()
        assert seat.exit_code(within_s=LEAVE_WITHIN_S) == 0
    servers = [span for span in receiver.spans if span.kind == Span.SPAN_KIND_SERVER]
    told = {facts(span.attributes)[names.ERROR_TYPE]: span.status.code for span in servers}
    assert told == {
        "recognition_failed": Status.STATUS_CODE_ERROR,
        "too_many_sessions": Status.STATUS_CODE_ERROR,
        "unsupported_value": Status.STATUS_CODE_UNSET,
    }
    assert {frozenset({("error_type", code)}) for code in (*names.FAULTS, *names.LIVE_REFUSALS)} == before.keys()
    assert (before.keys(), set(before.values()), sum(after.values())) == (after.keys(), {0}, 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_collector_that_is_away_changes_nothing(start: Start, protocol: str) -> None:
    """Requests are answered, the log has a handful of lines about it, and the process leaves in time."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # it does not listen
        port = nobody.getsockname()[1]
        seat = start(**Receiver().environment(protocol, port)).wait_for("/health/ready")
        with ThreadPoolExecutor(8) as pool:
            statuses = [answer.status_code for answer in pool.map(lambda _: seat.post(said(1)), range(30))]
        seat.stop()
        assert seat.exit_code(within_s=LEAVE_WITHIN_S) == 0
    assert statuses == [200] * 30
    complaints = [line["event"] for line in seat.log_lines() if line["logger"] != "seat"]
    tell(f"{protocol}: {complaints}")
    assert len(complaints) <= 6


def test_without_a_collector_no_exporter_is_loaded(start: Start) -> None:
    """Off costs nothing: no thread, no connection, no import; the trace of a caller is in the line all the same."""
    seat = start().wait_for("/health/ready")
    trace = secrets.token_hex(16)
    request = seat.request(said(1))
    request.headers["traceparent"] = f"00-{trace}-{secrets.token_hex(8)}-01"
    with httpx.Client(trust_env=False) as client:
        request_id = client.send(request).headers["x-request-id"]
    (line,) = seat.request_lines(request_id)
    assert line["trace_id"] == trace
    loaded = Path(f"/proc/{seat.process.pid}/maps").read_text()
    assert "grpc" not in loaded


def test_all_of_it_can_be_switched_off(start: Start) -> None:
    """By the standard variable; requests and their lines go on, and /metrics is empty."""
    seat = start(OTEL_SDK_DISABLED="true", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9").wait_for("/health/ready")
    assert seat.post(said(1)).status_code == 200
    assert seat.log_lines(event="request", status=200)
    assert not re.findall(r"^(?:asr|http)_.*", seat.get("/metrics").text, re.MULTILINE)


def test_a_protocol_that_it_does_not_speak_stops_the_start(start: Start) -> None:
    """With the variable's name; nobody waits for traces that never come."""
    seat = start(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_PROTOCOL="http/json")
    assert seat.exit_code() == 1
    (line,) = seat.log_lines(event="cannot_start")
    assert "OTEL_EXPORTER_OTLP_PROTOCOL='http/json'" in line["reason"]


def test_a_stall_is_counted_and_logged_once(start: Start) -> None:
    """Not each time somebody looks; and so is its end."""
    seat = start(SEAT_STALL_S="0.2").wait_for("/health/ready")
    caught = seat.begin(said(9))
    until(lambda: seat.log_lines(event="stalled"), what="the stall is logged")
    text = until(
        lambda: "asr_stalls_total 1.0" in (text := seat.get("/metrics").text) and text, what="the stall is counted"
    )
    assert 'asr_seat_state{asr_state="stalled"} 1.0' in text
    seat.sign("nine")
    assert caught.answer().status_code == 200
    until(lambda: seat.log_lines(event="recovered"), what="its end is logged")
    assert len(seat.log_lines(event="stalled")) == 1
