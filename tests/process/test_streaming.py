"""Streams of the real server: words leave while the model works, and who leaves ends the work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from tests.process.conftest import Start
from tests.process.seats import PATIENCE_S, TRANSCRIPTIONS, FakeSeat, Pending, said, until

pytestmark = pytest.mark.process


@pytest.fixture
def single(start: Start) -> FakeSeat:
    """A seat that runs one window of a file after the other."""
    return start(SEAT_MAX_BATCH_S="5").wait_for("/health/ready")


@contextmanager
def _streamed(seat: FakeSeat, file: bytes, **fields: str) -> Iterator[tuple[httpx.Response, Iterator[dict[str, Any]]]]:
    """An answer and its events; left early, the connection is closed."""
    with (
        httpx.Client(base_url=seat.url, timeout=PATIENCE_S, trust_env=False) as client,
        client.stream(
            "POST",
            TRANSCRIPTIONS,
            data={"model": "whisper-1", "stream": "true", **fields},
            files={"file": ("upload", file, "application/octet-stream")},
        ) as answer,
    ):
        lines = (line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: "))
        yield answer, (json.loads(line) for line in lines if line != "[DONE]")


def test_the_first_words_leave_before_the_last_window_is_heard(single: FakeSeat) -> None:
    """The model stands still in the last word, and the others have arrived; then that one comes too."""
    digits = [1, 2, 3, 4, 5, 6] * 3
    with _streamed(single, said(*digits, 9)) as (answer, events):
        assert (answer.headers["content-type"], answer.headers["x-accel-buffering"]) == ("text/event-stream", "no")
        assert "content-encoding" not in answer.headers
        first = next(events)
        assert first["type"] == "transcript.text.delta"
        assert first["delta"].startswith("one two")
        assert not (single.folder / "nine").exists()
        single.sign("nine")
        *more, done = events
    assert done["type"] == "transcript.text.done"
    assert len(more) > 1
    assert "".join(event["delta"] for event in (first, *more)) == done["text"]
    assert done["text"].endswith("six nine")
    (line,) = single.request_lines(answer.headers["x-request-id"])
    assert (line["status"], line["stream"], line["audio_s"]) == (200, True, pytest.approx(19.6))


def test_a_fault_after_the_first_words_is_an_event(single: FakeSeat) -> None:
    """The openai SDK raises it, after the words that came; the line has its code."""
    file = said(*[1, 2, 3] * 4, 7)
    with _streamed(single, file) as (answer, events):
        *deltas, error = events
    assert deltas
    assert answer.status_code == 200
    assert error["error"]["code"] == "recognition_failed"
    (line,) = single.request_lines(answer.headers["x-request-id"])
    assert (line["status"], line["error"]) == (200, "recognition_failed")
    with openai.OpenAI(base_url=f"{single.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
        stream = client.audio.transcriptions.create(model="whisper-1", file=file, stream=True)
        with pytest.raises(openai.APIError, match="The model failed on this audio"):
            list(stream)


def test_a_fault_before_the_first_words_is_an_answer(single: FakeSeat) -> None:
    """With its status, in OpenAI's shape, and not as a stream."""
    for file, status in [(said(7), 500), (b"junk", 400)]:
        answer = single.post(file, stream="true")
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        assert answer.json()["error"]["message"]


def test_who_hangs_up_ends_the_work(single: FakeSeat) -> None:
    """Windows that wait are never heard, and the next request is served."""
    with _streamed(single, said(*[1, 2, 3] * 3, 9, *[4, 5, 6] * 5)) as (answer, events):
        next(events)
        until(lambda: any("nine" in words for words in single.words()), what="the model stands still")
        request_id = answer.headers["x-request-id"]
    (line,) = single.request_lines(request_id)
    assert (line["status"], line["error"]) == (200, "client_disconnected")
    asked = len(single.words())
    single.sign("nine")
    assert single.post(said(8)).json()["text"] == "eight"
    assert single.words()[asked:] == [["eight"]]


def test_a_deadline_holds_for_streams_too(start: Start) -> None:
    """After the first words it is an event, before them a status."""
    seat = start(SEAT_MAX_BATCH_S="5", SEAT_DEADLINE_S="2").wait_for("/health/ready")
    with _streamed(seat, said(*[1, 2, 3] * 4, 9)) as (_, events):
        *_, error = events
    assert error["error"]["code"] == "deadline_exceeded"
    answer = seat.post(said(9), stream="true")
    assert (answer.status_code, answer.headers["x-should-retry"]) == (504, "false")
    seat.sign("nine")


def test_a_stream_may_take_longer_than_its_client_waits_for_an_event(single: FakeSeat) -> None:
    """Its read timeout is not one for the whole answer: what comes in one piece is too late when the stream goes on."""
    streamed, whole = single.request(said(9), stream="true"), single.request(said(1))
    for request in (streamed, whole):
        request.headers["x-stainless-read-timeout"] = "0.2"
    stream = Pending(single.port, streamed)
    single.wait_for_words("nine")
    assert Pending(single.port, whole).answer().json()["error"]["code"] == "deadline_exceeded"
    single.sign("nine")
    answer = stream.answer()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    assert '"text":"nine"' in answer.text


def test_a_model_that_hangs_is_told_by_the_deadline_of_a_stream(start: Start) -> None:
    """In an event after the first words: it is not this file that took too long."""
    seat = start(SEAT_MAX_BATCH_S="5", SEAT_DEADLINE_S="2", SEAT_STALL_S="0.5").wait_for("/health/ready")
    with _streamed(seat, said(*[1, 2, 3] * 4, 9)) as (_, events):
        *_, error = events
    assert error["error"]["code"] == "gpu_stalled"
    seat.sign("nine")


def test_a_stream_that_the_seat_cannot_wait_for_is_told_so(start: Start) -> None:
    """When SEAT_DRAIN_S has passed: by an event, as of any fault after the first words."""
    seat = start(SEAT_MAX_BATCH_S="5", SEAT_DRAIN_S="0.2").wait_for("/health/ready")
    with _streamed(seat, said(*[1, 2, 3] * 4, 9)) as (answer, events):
        next(events)
        until(lambda: any("nine" in words for words in seat.words()), what="the model stands still")
        seat.stop()
        *_, error = events
    assert error["error"]["code"] == "shutting_down"
    assert seat.exit_code() == 0
    (line,) = seat.request_lines(answer.headers["x-request-id"])
    assert (line["status"], line["error"]) == (200, "shutting_down")
    assert "Traceback" not in seat.log_text()


FORMATS = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "diarized_json": None,
    "": "application/json",
}
GRANULARITIES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    *(
        ({name: value}, True)
        for name in ("timestamp_granularities[]", "timestamp_granularities")
        for value in ("word", "segment", ["word", "segment"], '["word"]', '["word","segment"]', "word,segment", "")
    ),
    ({"timestamp_granularities[]": "sentence"}, False),
    ({"timestamp_granularities": '["word", "x"]'}, False),
]
STREAMS = {"": False, "true": True, "false": False, "maybe": None}


def test_every_combination_is_right_or_refused_by_name(fake: FakeSeat) -> None:
    """Format by stream by granularity: 200 of the type that was asked for, or 400 with the field at fault."""
    file = said(1, 2)
    for response_format, content_type in FORMATS.items():
        for stream, streams in STREAMS.items():
            for asked, known in GRANULARITIES:
                answer = fake.post(file, response_format=response_format, stream=stream, **asked)
                told = (response_format, stream, asked, answer.status_code, answer.text)
                wrong = {
                    "response_format": content_type is None or (streams and response_format in {"srt", "vtt"}),
                    "stream": streams is None,
                    "timestamp_granularities": not known,
                }
                if any(wrong.values()):
                    assert answer.status_code == 400, told
                    assert wrong[answer.json()["error"]["param"]], told
                else:
                    assert answer.status_code == 200, told
                    assert answer.headers["content-type"] == ("text/event-stream" if streams else content_type), told
                    assert "one two" in answer.text, told
