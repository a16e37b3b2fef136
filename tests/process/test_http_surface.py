"""What any client may send to the real server, byte by byte, and what it must get back."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import select
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests import sounds
from tests.fakes import speech
from tests.process.conftest import Start
from tests.process.seats import PATIENCE_S, TRANSCRIPTIONS, FakeSeat, Seat, read_all, said, until

pytestmark = pytest.mark.process

FORM = "multipart/form-data; boundary=b"
MIB = 2**20


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeSeat]:
    """A seat that takes uploads of 2 MiB."""
    with FakeSeat(tmp_path_factory.mktemp("small"), SEAT_MAX_UPLOAD_MIB="2") as small:
        yield small.wait_for("/health/ready")


def part(name: str, value: bytes, rest: str = "") -> bytes:
    """One part of a form with the boundary 'b'; ``rest`` follows the name in its head."""
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{rest}\r\n\r\n'.encode() + value + b"\r\n"


MODEL = part("model", b"whisper-1")
FILE = part("file", said(1, 2), '; filename="a.wav"')
END = b"--b--\r\n"


def send(
    seat: Seat,
    content: bytes | Iterator[bytes],
    content_type: str | None = FORM,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> httpx.Response:
    """Post a body as it is."""
    described = [(b"content-type", content_type.encode())] if content_type else []
    return seat.send("POST", TRANSCRIPTIONS, content=content, headers=[*described, *headers])


def problem(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    """Status, param and code of an answer that is an error in OpenAI's shape, whatever else it says."""
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["type"] == ("invalid_request_error" if answer.status_code < 500 else "server_error")
    return answer.status_code, error["param"], error["code"]


@pytest.mark.parametrize(
    "rest",
    [
        "",
        '; filename=""',
        '; filename="upload"\r\nContent-Type: application/octet-stream',
        '; filename="x.mp3"\r\nContent-Type: audio/mpeg',
        '; filename="Größe \N{SPEAKER} \\"1\\".WAV"\r\nContent-Type: audio/webm;codecs=opus',
        "; filename*=UTF-8''a%20b.wav",
    ],
)
def test_a_file_is_a_file_under_any_name_and_type(fake: FakeSeat, rest: str) -> None:
    """With a name, an empty one or none: what counts is that the part is called 'file'."""
    answer = send(fake, MODEL + part("file", said(1, 2), rest) + END)
    assert (answer.status_code, answer.json()) == (
        200,
        {"text": "one two", "usage": {"type": "duration", "seconds": 3}},
    )


def test_the_file_may_come_first(fake: FakeSeat) -> None:
    """The order of parts is the client's."""
    assert send(fake, FILE + MODEL + END).json()["text"] == "one two"


def test_ten_megabytes_are_no_limit(fake: FakeSeat) -> None:
    """Litestar's default of 10 MB is not ours: the word at the end of 11 MB is heard."""
    file = sounds.wav(np.concatenate([np.zeros(350 * 16_000), speech([5]) / 32768]))
    assert len(file) > 11_000_000
    assert fake.post(file).json()["text"] == "five"


def test_fields_that_mean_nothing_here_are_read_past(fake: FakeSeat) -> None:
    """LiteLLM forwards its callers' own fields, however many and however large."""
    extra = part("languages[]", b"en") + part("chunking_strategy[type]", b"server_vad") + part("note", b"x" * 200_000)
    assert send(fake, extra + MODEL + FILE + END).json()["text"] == "one two"


@pytest.mark.parametrize(
    "content, content_type, expected",
    [
        (MODEL + FILE + END, "multipart/form-data", (400, None, "invalid_form")),
        (MODEL + FILE + END, "multipart/form-data; boundary=", (400, None, "invalid_form")),
        (MODEL + FILE + END, "multipart/form-data; boundary=c", (400, None, "invalid_form")),
        (MODEL + FILE, FORM, (400, None, "invalid_form")),
        ((MODEL + FILE)[:-200], FORM, (400, None, "invalid_form")),
        (b"", FORM, (400, None, "invalid_form")),
        (b"\0" * 1000, FORM, (400, None, "invalid_form")),
        (b"", None, (400, "file", "missing_required_parameter")),
        (b'{"model": "whisper-1"}', "application/json", (400, "file", "missing_required_parameter")),
        (b"model=whisper-1", "application/x-www-form-urlencoded", (400, "file", "missing_required_parameter")),
        (said(1), "audio/wav", (400, "file", "missing_required_parameter")),
        (MODEL + END, FORM, (400, "file", "missing_required_parameter")),
        (END, FORM, (400, "file", "missing_required_parameter")),
        (FILE + END, FORM, (400, "model", "missing_required_parameter")),
        (part("model", b"") + FILE + END, FORM, (400, "model", "missing_required_parameter")),
        (MODEL + part("file", b"") + END, FORM, (400, "file", "missing_required_parameter")),
        (MODEL + part("file", b"no audio") + END, FORM, (400, "file", "invalid_audio")),
        (part("model", b"large-v3") + FILE + END, FORM, (404, "model", "model_not_found")),
        (part("x", b"") * 1001 + END, FORM, (413, None, "too_many_parts")),
        (part("model", b"x" * 70_000) + FILE + END, FORM, (413, None, "too_many_parts")),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else str(value),
)
def test_what_is_no_request_is_refused_in_our_shape(
    fake: FakeSeat, content: bytes, content_type: str | None, expected: tuple[int, str | None, str]
) -> None:
    """Whoever finds the fault, ours or the framework, the answer is a 4xx that names it: clients repeat what is 5xx."""
    assert problem(send(fake, content, content_type)) == expected


@pytest.mark.parametrize(
    "field, value",
    [
        *(("response_format", value) for value in ("diarized_json", "JSON", "xml")),
        *(("timestamp_granularities", value) for value in ("sentence", '["word", "sentence"]', "word,x", "[word")),
        ("timestamp_granularities[]", "sentence"),
    ],
)
def test_a_value_that_is_not_known_is_refused_by_name(fake: FakeSeat, field: str, value: str) -> None:
    """The error names the field, without brackets."""
    answer = send(fake, MODEL + part("response_format", b"verbose_json") + part(field, value.encode()) + FILE + END)
    assert problem(answer) == (400, field.removesuffix("[]"), "unsupported_value")


@pytest.mark.parametrize(
    "fields",
    [
        [("timestamp_granularities[]", "word")],
        [("timestamp_granularities", "word")],
        [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")],
        [("timestamp_granularities", "segment"), ("timestamp_granularities", "word")],
        [("timestamp_granularities[0]", "word"), ("timestamp_granularities[1]", "segment")],
        [("timestamp_granularities", '["word"]')],
        [("timestamp_granularities", '["word", "segment"]')],
        [("timestamp_granularities[]", "word,segment")],
        [("timestamp_granularities", "segment, word")],
    ],
)
def test_word_times_come_however_they_are_asked_for(fake: FakeSeat, fields: list[tuple[str, str]]) -> None:
    """With brackets or without, once, repeated, as JSON or with commas."""
    asked = b"".join(part(name, value.encode()) for name, value in fields)
    answer = send(fake, MODEL + part("response_format", b"verbose_json") + asked + FILE + END).json()
    assert [word["word"] for word in answer["words"]] == ["one", "two"]
    assert ("segments" in answer) == any("segment" in value for _, value in fields)


@pytest.mark.parametrize(
    "response_format, content_type",
    [
        ("json", "application/json"),
        ("verbose_json", "application/json"),
        ("text", "text/plain; charset=utf-8"),
        ("srt", "text/plain; charset=utf-8"),
        ("vtt", "text/vtt; charset=utf-8"),
    ],
)
def test_each_format_has_its_content_type(fake: FakeSeat, response_format: str, content_type: str) -> None:
    """As OpenAI sends them: clients and gateways choose their parser by it."""
    answer = fake.post(said(1), response_format=response_format)
    assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)


def test_unknown_paths_and_methods_are_refused_in_our_shape(fake: FakeSeat) -> None:
    """What the framework answers by itself looks like everything else."""
    assert problem(fake.get("/v1/audio/speech")) == (404, None, "unknown_url")
    assert problem(fake.get("/v1/models/none/such")) == (404, "model", "model_not_found")
    assert problem(fake.get("/v1")) == (404, None, "unknown_url")
    assert problem(fake.get("/%00")) == (404, None, "unknown_url")
    wrong = fake.get(TRANSCRIPTIONS)
    assert problem(wrong) == (405, None, "method_not_allowed")
    assert "POST" in wrong.headers["allow"]


def test_a_head_request_is_a_get_without_a_body(fake: FakeSeat) -> None:
    """Load balancers ask so; and the next answer on the same connection is not misread."""
    connection = http.client.HTTPConnection("127.0.0.1", fake.port, timeout=PATIENCE_S)
    for path, status in [("/health/live", 200), ("/health/ready", 200), ("/health", 200), ("/", 200), ("/none", 404)]:
        seen = []
        for method in ("HEAD", "GET"):
            connection.request(method, path)
            answer = connection.getresponse()
            content = answer.read()
            assert bool(content) == (method == "GET")
            seen.append((answer.status, answer.getheader("content-type")))
        assert (seen[0], seen[0][0]) == (seen[1], status)
    connection.close()


def test_a_client_that_vanishes_without_a_packet_is_missed(fake: FakeSeat) -> None:
    """The kernel asks after it: its timer runs on accepted connections that are idle, websockets among them."""

    def timers(port: int) -> list[str]:
        rows = [line.split() for line in Path(f"/proc/{fake.process.pid}/net/tcp").read_text().splitlines()]
        return [row[5][:2] for row in rows if row[1].endswith(f":{fake.port:04X}") and row[2].endswith(f":{port:04X}")]

    with socket.create_connection(("127.0.0.1", fake.port), PATIENCE_S) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        port = connection.getsockname()[1]
        until(lambda: timers(port) == ["02"], what="the timer that asks after an idle client")


def test_a_connection_serves_on_after_a_refusal(fake: FakeSeat) -> None:
    """Keep-alive clients are not punished for a bad request."""
    with httpx.Client(base_url=fake.url) as client:
        statuses = [
            client.post(TRANSCRIPTIONS, content=content, headers={"content-type": FORM}).status_code
            for content in (MODEL + END, b"", MODEL + FILE, MODEL + FILE + END)
        ]
    assert statuses == [400, 400, 400, 200]


@pytest.mark.parametrize("path", [b"/v1/mod\0els", b"/v1/models HTTP/1.1\r\nbad header\r\nx: "])
def test_what_is_not_http_gets_a_bare_400(fake: FakeSeat, path: bytes) -> None:
    """The server below us answers before we see it: no error object, but a plain status, and the seat lives on."""
    answer = fake.exchange(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert fake.status("/health/live") == 200


def test_status_lines_hold_printable_bytes_only(start: Start) -> None:
    """Of every status that is sent: a gateway that is handed anything else drops the connection."""
    seat = start("--slow-load", SEAT_API_KEYS="k", SEAT_MAX_UPLOAD_MIB="1", SEAT_DEADLINE_S="1")
    seat.wait_for("/health/live")

    def status_line(target: str, content: bytes = b"", key: str = "k") -> bytes:
        head = f"{target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n"
        described = f"Content-Type: {FORM}\r\nContent-Length: {len(content)}\r\n\r\n"
        return seat.exchange((head + described).encode() + content).partition(b"\r\n")[0]

    post = f"POST {TRANSCRIPTIONS}"
    lines = [
        status_line("GET /health/live"),
        status_line(post, MODEL + FILE + END, key="j"),
        status_line("GET /none\u00e9"),
        status_line(f"GET {TRANSCRIPTIONS}"),
        status_line(post, MODEL + FILE + END),
    ]
    seat.sign("load")
    seat.wait_for("/health/ready")
    lines += [
        status_line(post, MODEL + END),
        status_line(post, MODEL + part("file", b"\0" * 2 * MIB) + END),
        status_line(post, MODEL + part("file", said(7)) + END),
        status_line(post, MODEL + part("file", said(9)) + END),
    ]
    seat.sign("nine")
    assert [int(line.split()[1]) for line in lines] == [200, 401, 404, 405, 503, 400, 413, 500, 504]
    assert [line for line in lines if not re.fullmatch(rb"HTTP/1\.1 \d{3} [ -~]+", line)] == []


@pytest.mark.parametrize(
    "shown, echoed",
    [
        (b"trace-7.a:b_c", True),
        (b"x" * 128, True),
        (b"x" * 129, False),
        (b"two words", False),
        ("größe".encode(), False),
        (b"gr\xf6sse", False),
        (b'a"b', False),
        (b"", False),
    ],
)
def test_a_request_id_is_echoed_if_it_is_harmless(fake: FakeSeat, shown: bytes, echoed: bool) -> None:  # noqa: FBT001
    """It goes into a header and a log line, so anything else gets an id of ours instead."""
    answer = fake.get("/v1/models", headers=[(b"x-request-id", shown)])
    pattern = re.escape(shown.decode("latin-1")) if echoed else r"req_[0-9a-f]{32}"
    assert re.fullmatch(pattern, answer.headers["x-request-id"])
    assert len(answer.headers.get_list("x-request-id")) == 1
    assert len(fake.request_lines(answer.headers["x-request-id"])) == 1


def test_a_line_feed_in_a_request_id_makes_no_header(fake: FakeSeat) -> None:
    """A bare line feed or carriage return neither splits the answer nor the log."""
    for feed in (b"\n", b"\r", b"\r\n "):
        head = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: a" + feed + b"evil: 1\r\n\r\n"
        answer = fake.exchange(head)
        assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))
        assert b"evil" not in answer


def test_http_2_with_prior_knowledge_works(fake: FakeSeat) -> None:
    """Written by hand, frame by frame: a gateway may speak it on a plain connection without asking."""

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    path = b"/v1/models"
    headers = b"\x82\x86" + b"\x04" + bytes([len(path)]) + path + b"\x01\x01x"  # GET, http, :path, :authority
    settings = frame(4, 0, 0, b"")
    request = frame(1, 0x05, 1, headers)  # the end of the stream and of its headers
    kinds: dict[int, list[bytes]] = {}
    with socket.create_connection(("127.0.0.1", fake.port), PATIENCE_S) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + request)
        reader = connection.makefile("rb")
        ended = False
        while not ended:
            head = reader.read(9)
            kind, flags = head[3], head[4]
            kinds.setdefault(kind, []).append(reader.read(int.from_bytes(head[:3], "big")))
            ended = kind in (0, 1) and bool(flags & 1)
    assert kinds[1][0][:1] == b"\x88"  # :status 200
    assert json.loads(b"".join(kinds[0]))["object"] == "list"


TOO_MANY_MB = (3, 5, 8, 20, 60)


def test_an_upload_over_the_limit_is_told_so(small: FakeSeat) -> None:
    """The answer comes before the body's end, and every blocking client can read it, with a length or in chunks."""

    def chunks(megabytes: int) -> Iterator[bytes]:
        yield MODEL + FILE[: FILE.index(b"fLaC")]
        for _ in range(megabytes):
            yield b"\1" * 1_000_000

    answers = [send(small, b"".join(chunks(megabytes))) for megabytes in TOO_MANY_MB * 4]
    answers += [send(small, chunks(megabytes)) for megabytes in TOO_MANY_MB * 4]
    assert {problem(answer) for answer in answers} == {(413, "file", "upload_too_large")}
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert [len(small.request_lines(request_id)) for request_id in ids] == [1] * len(answers)


async def test_an_upload_over_the_limit_is_told_so_to_asynchronous_clients_too(small: FakeSeat) -> None:
    """They read while they write, and a reset makes them forget what they have read."""

    async def chunks(megabytes: int) -> AsyncIterator[bytes]:
        yield MODEL + FILE[: FILE.index(b"fLaC")]
        for _ in range(megabytes):
            yield b"\1" * 1_000_000

    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        for path, status in [(TRANSCRIPTIONS, 413), ("/none", 404), ("/v1/models", 405)]:
            answers = await asyncio.gather(
                *(
                    client.post(small.url + path, content=content, headers={"content-type": FORM})
                    for megabytes in TOO_MANY_MB
                    for content in (chunks(megabytes), MODEL + FILE + b"\1" * megabytes * 1_000_000)
                )
            )
            assert [problem(answer)[0] for answer in answers] == [status] * len(answers)


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_memory_stays_bounded_whatever_is_thrown_at_it(small: FakeSeat, framing: str) -> None:
    """200 MB into a limit of 2 MiB: the refusal arrives long before, and the process does not grow by 30 MiB."""
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\n"
    size = "Transfer-Encoding: chunked" if framing == "chunked" else f"Content-Length: {200 * MIB}"
    block = b"\1" * MIB if framing == "length" else b"100000\r\n" + b"\1" * MIB + b"\r\n"
    opening = MODEL + FILE[: FILE.index(b"fLaC")]
    small.post(said(1))
    small.forget_peak()
    before = small.resident_mib()
    answer, unanswered_mib = b"", 0
    with socket.create_connection(("127.0.0.1", small.port), PATIENCE_S) as connection:
        framed = opening if framing == "length" else f"{len(opening):x}\r\n".encode() + opening + b"\r\n"
        connection.sendall(f"{head}{size}\r\n\r\n".encode() + framed)
        for _ in range(199):
            connection.sendall(block)
            if select.select([connection], [], [], 0)[0]:
                answer += connection.recv(65_536)
            else:
                unanswered_mib += not answer
        grown = small.resident_mib("VmHWM") - before
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"upload_too_large" in answer
    assert unanswered_mib < 50
    assert grown < 30


def test_a_client_that_stands_still_after_a_refusal_is_left(small: FakeSeat) -> None:
    """The server reads on after a refusal, but does not wait for ever; others are served meanwhile."""
    head = (
        f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", small.port), PATIENCE_S) as connection:
        connection.sendall(head.encode() + b"1\r\nx\r\n")
        until(lambda: select.select([connection], [], [], 0)[0], what="the refusal")
        assert small.post(said(1)).status_code == 200
        assert read_all(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("nbytes, status_lines", [(200 * MIB, [413]), (len(MODEL + FILE + END), [100, 200])])
def test_a_client_that_asks_before_it_sends_is_told(small: FakeSeat, nbytes: int, status_lines: list[int]) -> None:
    """As curl does with large files: what will be refused is not sent at all."""
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", small.port), PATIENCE_S) as connection:
        connection.sendall(f"{head}Content-Length: {nbytes}\r\nExpect: 100-continue\r\n\r\n".encode())
        answer = connection.recv(65_536)
        if answer.startswith(b"HTTP/1.1 100 "):
            connection.sendall(MODEL + FILE + END)
        answer += read_all(connection)
    assert [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", answer)] == status_lines


@pytest.mark.parametrize("name", [b"\xfcber.wav", b"\x83e.wav", "über.wav".encode(), b"\xff\xfe"])
def test_a_file_name_may_be_in_any_encoding(fake: FakeSeat, name: bytes) -> None:
    """It is not read; what a browser or curl takes from an old disk is not UTF-8."""
    assert send(fake, MODEL + FILE.replace(b"a.wav", name) + END).json()["text"] == "one two"


@pytest.mark.parametrize(
    "head, body", [("Content-Length: 100000", MODEL), ("Transfer-Encoding: chunked", b"zz\r\n" + MODEL)]
)
def test_who_sends_half_and_waits_is_told(small: FakeSeat, head: str, body: bytes) -> None:
    """On the wire it is 400; in the log, where nobody can tell it from who hung up, 499."""
    with socket.create_connection(("127.0.0.1", small.port), PATIENCE_S) as connection:
        start = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nX-Request-Id: half\r\n"
        connection.sendall(f"{start}{head}\r\n\r\n".encode() + body)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"client_disconnected"' in answer
    assert small.request_lines("half")[-1]["status"] == 499


def test_a_client_that_leaves_in_mid_upload_leaves_nothing(small: FakeSeat) -> None:
    """Its line says 499, and the next request is served."""
    with socket.create_connection(("127.0.0.1", small.port), PATIENCE_S) as connection:
        head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nContent-Length: 100000\r\n"
        connection.sendall(f"{head}X-Request-Id: left\r\n\r\n".encode() + MODEL)
    lines = small.request_lines("left")
    assert [(line["status"], line["error"]) for line in lines] == [(499, "client_disconnected")]
    assert small.post(said(1)).json()["text"] == "one"


def test_keys_open_the_door(start: Start) -> None:
    """Without a right key nothing is read and nothing is told; the probes need none."""
    seat = start(SEAT_API_KEYS="first-key,second-key").wait_for("/health/ready")

    def ask(authorization: bytes | None) -> tuple[int, Any]:
        headers = [] if authorization is None else [(b"authorization", authorization)]
        answers = [send(seat, MODEL + FILE + END, headers=headers), seat.get("/v1/models", headers=headers)]
        ((status, code),) = {(a.status_code, a.json().get("error", {}).get("code")) for a in answers}
        return status, code

    for authorization in (b"Bearer first-key", b"bearer second-key", b"Bearer  second-key"):
        assert ask(authorization) == (200, None)
    for authorization in (None, b"", b"Bearer", b"Bearer first", b"Basic first-key", b"first-key", b"Bearer \xff"):
        assert ask(authorization) == (401, "invalid_api_key")
    assert problem(send(seat, MODEL + FILE + END)) == (401, None, "invalid_api_key")
    assert send(seat, MODEL + FILE + END).headers["www-authenticate"] == "Bearer"
    until(lambda: seat.status("/health/live") == 200, what="the probes are open")
