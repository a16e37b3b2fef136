"""Requests that once broke something here: each was answered with 500, took memory or time without bound, or lied."""

from __future__ import annotations

import json
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests import sounds
from tests.process.conftest import Start
from tests.process.seats import PATIENCE_S, TRANSCRIPTIONS, FakeSeat, said, until

pytestmark = pytest.mark.process

FORM = "multipart/form-data; boundary=b"
MIB = 2**20


def part(name: str, value: bytes) -> bytes:
    """One part of a form with the boundary 'b'."""
    return f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"


REST = part("model", b"whisper-1") + part("file", said(1, 2)) + b"--b--\r\n"


def send(seat: FakeSeat, content: bytes | Iterator[bytes]) -> httpx.Response:
    """Post a body as it is; an iterator is sent in chunks, without a length."""
    return seat.send("POST", TRANSCRIPTIONS, content=content, headers={"content-type": FORM})


@pytest.mark.parametrize(
    "value",
    [b"[" * 60_000, b"[" + b"1" * 6_000 + b"]", rb'["\ud800"]', rb'["word", "\udfff"]'],
    ids=["deeper than the parser goes", "a number of too many digits", "half a character", "half of one behind a word"],
)
def test_json_that_breaks_the_parser_is_a_bad_value(fake: FakeSeat, value: bytes) -> None:
    """Not only what is no JSON: its parser has limits of its own, and half a character cannot be sent back."""
    answer = send(fake, part("timestamp_granularities[]", value) + REST)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "timestamp_granularities"
    assert answer.json()["error"]["code"] == "unsupported_value"


def test_no_error_repeats_half_a_character(fake: FakeSeat) -> None:
    """Whatever field it came in: an answer that cannot be written is a fault of ours."""
    answer = send(fake, part("chunking_strategy", rb'{"type": "\ud800"}') + REST)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "chunking_strategy")


@pytest.mark.parametrize("host", ["a:b", "a:99999999"])
def test_a_host_without_a_sane_port_is_no_fault_of_ours(fake: FakeSeat, host: str) -> None:
    """The error's sentence names the path, which needs no host."""
    answer = fake.exchange(f"GET /none HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["error"]["code"] == "unknown_url"


@pytest.mark.parametrize("where", ["before", "in a part", "behind"])
def test_a_body_is_bounded_wherever_its_bytes_are(start: Start, where: str) -> None:
    """In chunks, so no length tells: also what is read past counts, or one request could be read for ever."""
    seat = start(SEAT_MAX_UPLOAD_MIB="1").wait_for("/health/ready")

    def body() -> Iterator[bytes]:
        if where == "behind":
            yield REST
        elif where == "in a part":
            yield part("note", b"").removesuffix(b"\r\n")
        for _ in range(8):
            yield b"x" * MIB
        if where != "behind":
            yield b"\r\n" + REST

    answer = send(seat, body())
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "upload_too_large")


def test_a_thousand_fields_are_bounded_together(fake: FakeSeat) -> None:
    """Each may be as long as all: 64 MB of a request would stay in memory otherwise."""
    answer = send(fake, part("timestamp_granularities[]", b"word " * 10_000) * 2 + REST)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_many_parts")


def test_a_path_does_not_steer_the_terminal(start: Start) -> None:
    """Who asks for it decides what it holds: on a terminal an escape sequence would clear, rename or forge."""
    seat = start(SEAT_LOG_FORMAT="console").wait_for("/health/ready")
    request_id = "test-terminal"
    with httpx.Client(base_url=seat.url, timeout=PATIENCE_S) as client:
        client.get("/%1b]0;owned%07%c2%9b31m", headers={"x-request-id": request_id})
    seat.stop()
    seat.exit_code()
    (line,) = [line for line in seat.log_text().splitlines() if request_id in line]
    assert "/?]0;owned??31m" in line


def test_a_method_of_any_length_is_cut_in_the_log(fake: FakeSeat) -> None:
    """The line of a request does not grow with what a client makes up."""
    answer = fake.send("X" * 5_000, "/none")
    (line,) = fake.request_lines(answer.headers["x-request-id"])
    assert line["method"] == "X" * 20


def test_audio_that_is_given_up_leaves_no_memory(fake: FakeSeat) -> None:
    """An error, its traceback and its frames are a circle: each request kept its samples until the collector came."""
    file = sounds.written(np.zeros(8_000 * 3_700), 8_000, "FLAC", "PCM_16")
    assert fake.post(file).status_code == 413
    before = fake.resident_mib()
    assert [fake.post(file).status_code for _ in range(4)] == [413] * 4
    assert fake.resident_mib() - before < 90  # one hour is 115 MB, and it was kept four times


def test_a_full_disk_is_no_fault_of_the_client(start: Start) -> None:
    """No room for the upload is 503 with a time to come back; what needs no disk is still heard."""
    seat = start().wait_for("/health/ready")
    resource.prlimit(seat.process.pid, resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB))
    for nbytes in (8 * MIB, 2 * MIB + 100):
        answer = seat.post(bytes(nbytes))
        assert (503, "disk_full") == (answer.status_code, answer.json()["error"]["code"])
        assert 1 <= int(answer.headers["retry-after"]) <= 120
    assert seat.post(said(1, 2)).json()["text"] == "one two"


def test_a_stalled_upload_does_not_keep_the_process_beyond_its_grace(start: Start) -> None:
    """Told to stop, the seat waits for what is inside for SEAT_DRAIN_S, and then leaves in good order all the same."""
    seat = start(SEAT_DRAIN_S="0.5").wait_for("/health/ready")
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: a\r\nContent-Type: {FORM}\r\nContent-Length: 9999\r\n\r\n"
    with socket.create_connection(("127.0.0.1", seat.port), PATIENCE_S) as stalled:
        stalled.sendall(head.encode() + REST[:200])
        seat.get("/health/live")
        seat.process.send_signal(signal.SIGTERM)
        assert seat.process.wait(PATIENCE_S) == 0
    assert len(seat.log_lines(event="drain_ended")) == 1


def test_idle_connections_do_not_starve_the_probes(fake: FakeSeat) -> None:
    """Three hundred that were used once and stay open; a supervisor must still hear that the seat lives."""
    with ExitStack() as stack:
        for _ in range(300):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", fake.port), PATIENCE_S))
            idle.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
            assert idle.recv(65_536).startswith(b"HTTP/1.1 200")
        assert fake.get("/health/live").status_code == 200


def held(seat: FakeSeat) -> tuple[int, int]:
    """Open files, sockets and temporary files among them, and threads of the process."""
    process = Path(f"/proc/{seat.process.pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def test_clients_that_vanish_in_mid_upload_leave_nothing_behind(fake: FakeSeat) -> None:
    """200 of them, with a file that is spooled to the disk half-way: no socket, file, thread or place stays taken."""
    body = part("model", b"whisper-1") + part("file", bytes(2 * MIB)) + b"--b--\r\n"
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nContent-Length: {len(body)}\r\n\r\n"

    def vanish(count: int) -> None:
        with ExitStack() as stack:
            for _ in range(count):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", fake.port), PATIENCE_S))
                connection.sendall(head.encode() + body[: len(body) // 2])

    vanish(20)  # threads that write to the disk are started once
    until(lambda: len(fake.log_lines(event="request", status=499)) >= 20, what="20 are gone")
    files, threads = held(fake)
    vanish(200)
    until(lambda: len(fake.log_lines(event="request", status=499)) >= 220, what="all are gone")
    until(lambda: held(fake)[0] <= files, what="their files are closed")
    assert held(fake)[1] <= threads + 32  # asyncio's pool for blocking calls grows to 32 and no further
    answers = [fake.post(said(1, 2)) for _ in range(3)]
    assert [answer.json()["text"] for answer in answers] == ["one two"] * 3
