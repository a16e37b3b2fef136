"""From start to end: a real process with a fake model that fails, waits and hangs when told to."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.process.conftest import Start
from tests.process.seats import (
    MODEL_PATIENCE_S,
    PATIENCE_S,
    ROOT,
    TRANSCRIPTIONS,
    FakeSeat,
    Pending,
    Seat,
    read_all,
    said,
    tell,
    until,
)

pytestmark = pytest.mark.process

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client begins: the preface, and settings that change nothing."""

LEAVE_WITHIN_S = 10.0


def ended(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `seat serve` to the end that it comes to by itself."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SEAT_")}
    return subprocess.run(
        [sys.executable, "-m", "seat", "serve"],
        cwd=ROOT,
        env=inherited | {"SEAT_PORT": "0"} | environment,
        capture_output=True,
        text=True,
        timeout=MODEL_PATIENCE_S,
        check=False,
    )


def refused(seat: FakeSeat) -> None:
    """Wait until all that was posted before is in the queue: the one decoder takes files in turn, and refuses these."""
    assert [seat.post(b"no audio").status_code for _ in range(2)] == [400, 400]


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """What a client branches on."""
    return answer.status_code, answer.json()["error"]["code"]


def test_it_is_live_before_the_model_is_loaded_and_ready_after(start: Start) -> None:
    """Work is refused, with a time to come back, until the model has warmed up."""
    seat = start("--slow-load").wait_for("/health/live")
    ready, work = seat.get("/health/ready"), seat.post(said(1))
    assert (ready.status_code, ready.json()["state"]) == (503, "loading")
    assert error_of(work) == (503, "model_loading")
    assert 0 < int(ready.headers["retry-after"]) < 120
    assert 0 < int(work.headers["retry-after"]) < 120
    assert seat.get("/v1/models").status_code == 200
    seat.sign("load")
    assert seat.wait_for("/health/ready").post(said(1)).json()["text"] == "one"


def test_a_device_that_is_not_there_is_refused() -> None:
    """No silent fall to the processor: the process ends, and says which setting to change."""
    result = ended({"SEAT_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": ""})
    assert result.returncode == 1
    assert "SEAT_DEVICE=cuda was asked for, but" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_setting_that_does_not_exist_stops_the_start() -> None:
    """A typing error is named, together with what was meant."""
    result = ended({"SEAT_MODLE": "demo", "SEAT_STALL_S": "soon"})
    assert result.returncode == 1
    assert "SEAT_MODLE is not a setting; did you mean SEAT_MODEL?" in result.stderr
    assert "SEAT_STALL_S" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_that_cannot_be_loaded_ends_the_process(start: Start) -> None:
    """Nobody waits for a seat that will never be ready: it exits with 1 and logs the reason."""
    seat = start("--fault", "the archive is damaged")
    assert seat.exit_code() == 1
    (line,) = seat.log_lines(event="cannot_start")
    assert "the archive is damaged" in line["reason"]


def test_a_port_that_is_taken_ends_the_process(start: Start) -> None:
    """It does not run on without a way in."""
    first = start().wait_for("/health/live")
    second = start(SEAT_PORT=str(first.port))
    assert second.exit_code() == 1
    assert second.log_lines(event="cannot_start")


def test_a_signal_while_the_model_loads_ends_the_process(start: Start) -> None:
    """Loading cannot be interrupted, but the process does not wait for it."""
    seat = start("--slow-load").wait_for("/health/live")
    seat.stop()
    assert seat.exit_code(within_s=LEAVE_WITHIN_S) == 0


@pytest.mark.model
def test_a_signal_while_nemo_is_imported_ends_the_process(tmp_path: Path) -> None:
    """So does one at the worst moment of a real start: with 0, and not with a crash in somebody's destructor."""
    with Seat(tmp_path, ["-m", "seat", "serve"], {}) as seat:
        seat.wait_for("/health/live").stop()
        assert seat.exit_code() == 0
        assert [line["event"] for line in seat.log_lines() if line["logger"] == "seat"] == ["listening", "stopping"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_at_the_signal_is_finished(start: Start, number: signal.Signals) -> None:
    """A deployment loses nothing: the running and the waiting request are answered, idle connections delay nobody."""
    seat = start(SEAT_DECODERS="1").wait_for("/health/ready")
    with httpx.Client() as idle, httpx.Client() as other:
        assert [client.get(seat.url + "/health/live").status_code for client in (idle, other)] == [200, 200]
        running = seat.begin(said(9))
        seat.wait_for_words("nine")
        waiting = seat.begin(said(1))
        refused(seat)
        seat.stop(number)
        seat.wait_for("/health/ready", 503)
        assert error_of(seat.post(said(2))) == (503, "shutting_down")
        assert seat.process.poll() is None
        seat.sign("nine")
        answers = [running.answer(), waiting.answer()]
        answered_at = time.monotonic()
        assert seat.exit_code(within_s=LEAVE_WITHIN_S) == 0
        tell(f"left {time.monotonic() - answered_at:.2f} s after the last answer")
    assert [(answer.status_code, answer.json()["text"]) for answer in answers] == [(200, "nine"), (200, "one")]


def test_a_model_that_hangs_does_not_keep_the_process(start: Start) -> None:
    """After the deadline of what is under way, the process leaves without the thread that hangs."""
    seat = start(SEAT_DEADLINE_S="3").wait_for("/health/ready")
    running = seat.begin(said(9))
    seat.wait_for_words("nine")
    seat.stop()
    seat.wait_for("/health/ready", 503)
    assert error_of(seat.post(said(1))) == (503, "shutting_down")
    assert error_of(running.answer()) == (504, "deadline_exceeded")
    assert seat.exit_code(within_s=LEAVE_WITHIN_S) == 0


DRIVER_HANGS = """
import sys, threading
from seat.serve import serve
from seat.settings import read
from tests.fakes import FakeMeter, FakeRecognizer

class Meter(FakeMeter):
    def reported(self):
        threading.Event().wait()

recognizer = FakeRecognizer()
recognizer.meter = Meter()
sys.exit(serve(read(), lambda settings: recognizer))
"""
"""A seat on a card whose driver never answers who is asked by `/metrics`."""


def test_a_driver_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    """It holds a thread for which asyncio and the interpreter would wait; the process leaves without, and says so."""
    with Seat(tmp_path, ["-c", DRIVER_HANGS], {"SEAT_DRAIN_S": "0.5"}) as seat:
        seat.wait_for("/health/ready")
        with socket.create_connection(("127.0.0.1", seat.port), PATIENCE_S) as scrape:
            scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: seat\r\n\r\n")
            assert seat.get("/metrics").status_code == 200, "who asks meanwhile gets the reading before"
            seat.stop()
            assert seat.exit_code() == 0
        assert len(seat.log_lines(event="threads_left")) == 1


def test_a_free_port_is_told(tmp_path: Path) -> None:
    """Where any will do, the log has the one that was found, to be pasted."""
    with FakeSeat(tmp_path, SEAT_PORT="0") as seat:
        (line,) = until(lambda: seat.log_lines(event="listening"), what="it listens")
        assert line["port"] > 0
        assert f"http://127.0.0.1:{line['port']}/v1" in line["try_it"]
        assert httpx.get(f"http://127.0.0.1:{line['port']}/health/live", trust_env=False).status_code == 200


def test_a_client_that_stands_still_does_not_keep_the_process(start: Start) -> None:
    """An upload that does not go on is given up after the deadline, or refused where it had not begun to be read."""
    seat = start(SEAT_DEADLINE_S="1").wait_for("/health/ready")
    with seat.begin_half(said(1)) as connection:
        seat.stop()
        answer = read_all(connection)
        assert re.match(rb"HTTP/1.1 400 .*invalid_form|HTTP/1.1 503 .*shutting_down", answer, re.DOTALL)
        assert seat.exit_code(within_s=LEAVE_WITHIN_S) == 0


def test_who_is_cut_off_at_the_end_is_told(start: Start) -> None:
    """Who stands still in mid-upload, or waits for a model that hangs: 503, and a line each beside the one warning."""
    seat = start(SEAT_DRAIN_S="0.5").wait_for("/health/ready")
    running, stream = seat.begin(said(9)), Pending(seat.port, seat.request(said(9), stream="true"))
    seat.wait_for_words("nine")
    with seat.begin_half(said(1)) as connection:
        refused(seat)
        seat.stop()
        assert b"shutting_down" in read_all(connection)
    assert [error_of(pending.answer()) for pending in (running, stream)] == [(503, "shutting_down")] * 2
    assert seat.exit_code() == 0
    (warning,) = seat.log_lines(event="drain_ended")
    assert (warning["level"], warning["cut_off"]) == ("warning", 3)
    assert len(seat.log_lines(event="request", status=503, error="shutting_down")) == 3
    assert "Traceback" not in seat.log_text()
    assert [line["logger"] for line in seat.log_lines() if line["level"] == "error"] == []


def test_who_asks_for_nothing_holds_no_stop(start: Start) -> None:
    """Half a head, and a connection of HTTP/2 that answers no ping: the server waits some seconds, no drain."""
    seat = start(SEAT_DRAIN_S="300").wait_for("/health/ready")
    with (
        socket.create_connection(("127.0.0.1", seat.port), PATIENCE_S) as half,
        socket.create_connection(("127.0.0.1", seat.port), PATIENCE_S) as silent,
    ):
        half.sendall(f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost:".encode())
        silent.sendall(HTTP2)
        assert silent.recv(9)
        refused(seat)
        seat.stop()
        assert seat.exit_code(within_s=30) == 0
    assert seat.log_lines(event="drain_ended") == []
    assert "Traceback" not in seat.log_text()


def test_headers_do_not_unpack_without_bound(start: Start) -> None:
    """One of 3,900 bytes goes into the table of HTTP/2's compression, and then stands for itself at a byte each."""
    seat = start().wait_for("/health/ready")
    before_mib = seat.resident_mib()
    path = TRANSCRIPTIONS.encode()
    named = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x01a"
    large = b"\x40\x01x\x7f" + bytes([3900 - 127 & 127 | 128, 3900 - 127 >> 7]) + b"v" * 3900
    with socket.create_connection(("127.0.0.1", seat.port), PATIENCE_S) as connection:
        connection.settimeout(2)
        with suppress(OSError):  # it is closed, or has nothing to say
            connection.sendall(HTTP2)
            for stream in range(1, 200, 2):
                block = named + large * (stream == 1) + b"\xbe" * 4000
                head = len(block).to_bytes(3, "big") + b"\x01\x04" + stream.to_bytes(4, "big")
                connection.sendall(head + block)
            while connection.recv(65_536):
                pass
        assert seat.resident_mib() - before_mib < 100
    assert seat.log_lines(event="request") == []
    assert seat.post(said(1)).json()["text"] == "one"


def test_the_model_has_one_caller_on_one_thread(start: Start) -> None:
    """33 clients at once: no two calls overlap, all come from one thread, and everyone gets their own words."""
    seat = start().wait_for("/health/ready")
    numbers = [(n // 9 % 4 + 1, n % 6 + 1, n % 4 + 1) for n in range(33)]
    with ThreadPoolExecutor(33) as pool:
        answers = list(pool.map(lambda digits: seat.post(said(*digits)), numbers))
    names = ("zero", "one", "two", "three", "four", "five", "six")
    assert [answer.json()["text"] for answer in answers] == [" ".join(names[d] for d in ds) for ds in numbers]
    calls = seat.calls(None)
    assert [call["did"] for call in calls] == ["begin", "end"] * (len(calls) // 2)
    assert len({call["thread"] for call in calls}) == 1
    assert len(seat.words()) == 33


def test_what_was_loaded_is_out_of_the_collectors_sight(fake: FakeSeat) -> None:
    """Else each full collection walks all of NeMo, 0.37 s with the GIL held: the event loop would stand still.

    And so is what the warm-up made.
    """
    assert fake.post(said(1)).status_code == 200
    call = fake.calls()[-1]
    assert call["frozen"] > 10_000
    assert call["warm_up_frozen"]


def test_a_fault_in_a_batch_fails_only_its_own_requests(start: Start) -> None:
    """Of five in one batch the first and the third make the model raise: they get 500, the others their words."""
    seat = start(SEAT_DECODERS="1").wait_for("/health/ready")
    before = seat.begin(said(9))
    seat.wait_for_words("nine")
    pending: list[Pending] = []
    for digits in [(7, 1), (2, 3), (7, 2), (4, 5), (6, 6)]:
        pending.append(seat.begin(said(*digits)))
        refused(seat)
    seat.sign("nine")
    answers = [request.answer() for request in pending]
    assert before.answer().status_code == 200
    batch = [["seven", "one"], ["two", "three"], ["seven", "two"], ["four", "five"], ["six", "six"]]
    assert seat.calls()[1]["said"] == batch
    assert [answer.status_code for answer in answers] == [500, 200, 500, 200, 200]
    assert [answer.json().get("text") for answer in answers] == [None, "two three", None, "four five", "six six"]
    assert {answers[n].json()["error"]["code"] for n in (0, 2)} == {"recognition_failed"}
    assert seat.post(said(1)).json()["text"] == "one"


def test_a_clip_behind_a_long_file_waits_for_one_window(start: Start) -> None:
    """It comes while the model is in the first of a ten minutes' file, and is heard next."""
    seat = start(SEAT_DECODERS="1", SEAT_MAX_BATCH_S="6").wait_for("/health/ready")
    long = seat.begin(said(9, *[1, 2, 3] * 200))
    until(lambda: any("nine" in words for words in seat.words()), what="the model is in the first window")
    clip = seat.begin(said(8, 8))
    refused(seat)
    began = len(seat.words())
    seat.sign("nine")
    assert clip.answer().json()["text"] == "eight eight"
    assert len(long.answer().json()["text"].split()) == 601
    assert began == 1
    assert seat.words()[began] == ["eight", "eight"]
    assert len(seat.words()) > 150


def test_decoded_audio_is_bounded_over_all_requests(start: Start) -> None:
    """A file that would be too much beside another comes later; by itself it may be of any length."""
    seat = start(SEAT_MAX_DECODED_MIB="1").wait_for("/health/ready")
    long = said(*[1] * 60)
    running = seat.begin(said(9))
    seat.wait_for_words("nine")
    refused_now = seat.post(long)
    assert error_of(refused_now) == (503, "queue_full")
    assert int(refused_now.headers["retry-after"]) > 0
    seat.sign("nine")
    assert running.answer().json()["text"] == "nine"
    assert seat.post(long).json()["text"] == " ".join(["one"] * 60)


def test_work_whose_client_has_gone_is_never_done(start: Start) -> None:
    """A window that waits is dropped when its connection closes; the model never hears it."""
    seat = start(SEAT_DECODERS="1").wait_for("/health/ready")
    running = seat.begin(said(9))
    seat.wait_for_words("nine")
    left = seat.begin(said(5, 5))
    refused(seat)
    left.hang_up()
    until(lambda: seat.log_lines(event="request", status=499), what="the request is given up")
    seat.sign("nine")
    assert running.answer().json()["text"] == "nine"
    assert seat.post(said(1)).json()["text"] == "one"
    assert seat.words() == [["nine"], ["one"]]


def test_a_model_that_hangs_is_seen_from_outside(start: Start) -> None:
    """Not ready after SEAT_STALL_S, callers answered by SEAT_DEADLINE_S, not live after twice the stall; then back."""
    seat = start(SEAT_STALL_S="0.5", SEAT_DEADLINE_S="2").wait_for("/health/ready")
    began_at = time.monotonic()
    caught = seat.begin(said(9))
    seat.wait_for("/health/ready", 503)
    assert seat.get("/health/ready").json()["state"] == "stalled"
    late = seat.post(said(1))
    assert error_of(late) == (503, "gpu_stalled")
    assert 0 < int(late.headers["retry-after"]) < 120
    assert error_of(caught.answer()) == (503, "gpu_stalled")
    tell(f"503 after {time.monotonic() - began_at:.2f} s for a deadline of 2 s")
    seat.wait_for("/health/live", 503)
    seat.sign("nine")
    seat.wait_for("/health/live").wait_for("/health/ready")
    assert seat.post(said(1)).json()["text"] == "one"


def test_each_request_has_one_line_that_tells_nothing_private(start: Start) -> None:
    """Who asked for what, and where the time went; no key, no file name, no word that was spoken or sent."""
    seat = start(SEAT_API_KEYS="key-of-ann,key-of-bob", SEAT_MAX_UPLOAD_MIB="1").wait_for("/health/ready")
    right = {"authorization": "Bearer key-of-bob"}

    def post(number: int, file: bytes, headers: dict[str, str], **fields: str) -> int:
        return httpx.post(
            seat.url + TRANSCRIPTIONS,
            headers={"x-request-id": f"test-{number}", **headers},
            data={"model": "whisper-1", "prompt": "Frobisher", **fields},
            files={"file": ("wedding-of-ann.wav", file, "audio/x-wav")},
            timeout=PATIENCE_S,
        ).status_code

    statuses = [
        post(0, said(6, 8, 2, 8), right),
        post(1, said(7, 4, 6), right),
        post(2, b"no audio in wedding-of-ann", right),
        post(3, said(1), {"authorization": "Bearer key-of-eve"}),
        post(4, said(1), right, model="wrong-model"),
        post(5, b"\0" * 2**21, right),
        post(6, said(1), right, response_format="Frobisher"),
    ]
    assert statuses == [200, 500, 400, 401, 404, 413, 400]
    lines = [seat.request_lines(f"test-{number}") for number in range(len(statuses))]
    assert [[line["status"] for line in found] for found in lines] == [[status] for status in statuses]
    ((line,), *_) = lines
    assert (line["method"], line["path"], line["model"]) == ("POST", TRANSCRIPTIONS, "whisper-1")
    assert (line["audio_s"], line["windows"], line["batch_sizes"]) == (4.6, 1, [1])
    assert {"total_s", "decode_s", "queue_s", "inference_s"} <= line.keys()
    assert [found[0].get("error") for found in lines] == [
        *(None, "recognition_failed", "invalid_audio", "invalid_api_key"),
        *("model_not_found", "upload_too_large", "unsupported_value"),
    ]
    log = seat.log_text()
    for private in ("key-of", "wedding", "Frobisher", "six", "eight", "four"):
        assert private not in log
