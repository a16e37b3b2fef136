"""Live sessions as clients have them: a real server, OpenAI's own client, ours, and some that behave badly."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
import soxr
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from seat.recognizer import SAMPLE_RATE, Waveform
from tests.fakes import speech
from tests.process.conftest import Start
from tests.process.seats import PATIENCE_S, ROOT, FakeSeat, Seat, until

pytestmark = pytest.mark.process

SECOND = np.zeros(SAMPLE_RATE, np.int16)
TALK = np.concatenate([speech([1, 2, 3], gap_s=0.3), SECOND, SECOND, speech([4, 5, 6, 1, 2, 3], gap_s=0.3), SECOND])
SAID = ["one two three", "four five six one two three"]
TRANSCRIPTION = "conversation.item.input_audio_transcription"

Message = dict[str, Any]


@asynccontextmanager
async def plain(seat: Seat, query: str = "", **options: Any) -> AsyncIterator[ClientConnection]:
    """A connection by the plain protocol; nothing has been read yet."""
    address = seat.url.replace("http", "ws") + "/v1/audio/stream" + query
    async with asyncio.timeout(PATIENCE_S), connect(address, max_size=None, **options) as socket:
        yield socket


async def read(socket: ClientConnection, kind: str) -> Message:
    """The next message of a kind."""
    async for text in socket:
        message: Message = json.loads(text)
        if message["type"] == kind:
            return message
    raise EOFError(kind)


async def rest(socket: ClientConnection) -> list[Message]:
    """All that still comes, whichever way it ends."""
    messages: list[Message] = []
    with suppress(ConnectionClosed):
        async for text in socket:
            messages.append(json.loads(text))  # noqa: PERF401  what came before it broke off counts
    return messages


async def say(socket: ClientConnection, sound: Waveform, nbytes: int = 3201) -> None:
    """Send samples in messages that end anywhere."""
    data = sound.tobytes()
    for first in range(0, len(data), nbytes):
        await socket.send(data[first : first + nbytes])


def closed_by(socket: ClientConnection) -> tuple[int | None, str | None]:
    """How the server closed."""
    return socket.close_code, socket.close_reason


def open_sessions(seat: Seat) -> int:
    """Sessions that the seat holds."""
    return int(seat.get("/health").json()["streams"]["open"])


def kill_one(seat: Seat) -> None:
    """Start a client, and kill it once it is inside."""
    command = [sys.executable, "-m", "seat", "live", "-", "--url", seat.url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as client:
        until(lambda: open_sessions(seat) == 1, what="the client is inside")
        client.kill()


async def nothing_left(seat: Seat) -> None:
    """Wait until no session is open."""
    await asyncio.to_thread(until, lambda: open_sessions(seat) == 0, what="all sessions are gone")


async def test_the_plain_protocol(fake: FakeSeat) -> None:
    """Ready first; partials whose stable text only grows; a final for each turn; and what it was, at the end."""
    async with plain(fake) as socket:
        ready = json.loads(await socket.recv())
        assert (ready["type"], ready["model"], ready["sample_rate"]) == ("ready", "demo", 16_000)
        await say(socket, TALK)
        await socket.send(json.dumps({"type": "close"}))
        messages = await rest(socket)
    finals = [message for message in messages if message["type"] == "final"]
    assert [(final["segment"], final["text"]) for final in finals] == list(enumerate(SAID))
    assert [word["word"] for word in finals[1]["words"]] == SAID[1].split()
    assert (finals[1]["start"], finals[1]["end"]) == (finals[1]["words"][0]["start"], finals[1]["words"][-1]["end"])
    partials = [message for message in messages if message["type"] == "partial"]
    assert partials
    for partial in partials:
        assert partial["text"].startswith(partial["stable"])
        assert SAID[0].startswith(partial["stable"]) or SAID[1].startswith(partial["stable"])
    assert messages[-1] == {"type": "closed", "reason": "client", "audio_s": len(TALK) / SAMPLE_RATE}
    assert closed_by(socket) == (1000, "client")


@pytest.mark.parametrize("rate", [8_000, 48_000])
async def test_other_sampling_rates(seat: Seat, rate: int) -> None:
    """The bundled model hears the bundled clip at a telephone's rate and at a microphone's."""
    clip, clip_rate = soundfile.read(ROOT / "seat/demo/clips/call.flac", dtype="float32")
    sound = np.round(soxr.resample(clip, clip_rate, rate) * 32_767).astype(np.int16)
    async with plain(seat, f"?sample_rate={rate}") as socket:
        await read(socket, "ready")
        await say(socket, sound)
        await socket.send(json.dumps({"type": "close"}))
        finals = [message["text"] for message in await rest(socket) if message["type"] == "final"]
    assert " ".join(finals) == "Seven three alpha. Stop please."


async def test_finalize_is_always_answered(fake: FakeSeat) -> None:
    """With the words that have come, or with none; the session goes on."""
    async with plain(fake) as socket:
        await say(socket, speech([1, 2], gap_s=0.1))
        await socket.send(json.dumps({"type": "finalize"}))
        assert (await read(socket, "final"))["text"] == "one two"
        await socket.send(json.dumps({"type": "finalize"}))
        assert (await read(socket, "final"))["text"] == ""
        await say(socket, speech([3], gap_s=0.1))
        await socket.send(json.dumps({"type": "finalize"}))
        assert (await read(socket, "final"))["text"] == "three"


async def test_malformed_messages_end_no_session(fake: FakeSeat) -> None:
    """Each is answered by its own error; audio in between is heard."""
    wrong = ["", "{", "[]", "7", '{"type":7}', '{"type":"unknown"}', "{}", "[" * 100_000, '"\\ud800"']
    async with plain(fake) as socket:
        for text in wrong:
            await socket.send(text)
            assert (await read(socket, "error"))["error"]["code"] == "invalid_event"
        await say(socket, speech([4]))
        await socket.send(json.dumps({"type": "close"}))
        assert "four" in [message.get("text") for message in await rest(socket)]


@pytest.mark.parametrize(
    "query, first, code",
    [
        ("?sample_rate=fast", None, "unsupported_value"),
        ("?sample_rate=7999", None, "unsupported_value"),
        ("", json.dumps({"type": "start", "model": "large-v3"}), "model_not_found"),
        ("", b"\0" * (15 * 2**20 + 1), "invalid_event"),
    ],
)
async def test_what_cannot_be_served_is_told_and_closed(
    fake: FakeSeat, query: str, first: str | bytes | None, code: str
) -> None:
    """With OpenAI's error object and a code that says whose fault it is."""
    async with plain(fake, query) as socket:
        if first is not None:
            await socket.send(first)
        messages = await rest(socket)
    assert messages[-1]["type"] == "error"
    assert set(messages[-1]["error"]) == {"message", "type", "param", "code"}
    assert messages[-1]["error"]["code"] == code
    assert closed_by(socket) == (1008, code)


async def test_keys_are_asked_for_as_over_http(start: Start) -> None:
    """In the header, as a subprotocol, or in the first message; a wrong one is an error, and told in no log."""
    seat = start(SEAT_API_KEYS="right-key").wait_for("/health/ready")
    bearer = {"additional_headers": {"Authorization": "Bearer right-key"}}
    protocols = {"subprotocols": ["realtime", "openai-insecure-api-key.right-key"]}
    for path, options in [("", bearer), ("", protocols)]:
        async with plain(seat, path, **options) as socket:
            assert (await read(socket, "ready"))["model"] == "demo"
            assert socket.subprotocol in (None, "realtime")
    async with plain(seat) as socket:
        await socket.send(json.dumps({"type": "start", "key": "right-key"}))
        await read(socket, "ready")
    for first in (json.dumps({"type": "start", "key": "wrong-key"}), b"\0\0", json.dumps({"type": "close"})):
        async with plain(seat) as socket:
            await socket.send(first)
            assert (await read(socket, "error"))["error"]["code"] == "invalid_api_key"
    async with realtime(seat, key="wrong-key") as connection:
        event = await connection.recv()
        assert (event.type, event.error.code) == ("error", "invalid_api_key")
    assert "-key" not in seat.log_text()


async def test_sessions_are_bounded(start: Start) -> None:
    """In number and in time, and the client is told which bound it was."""
    seat = start(SEAT_MAX_LIVE_SESSIONS="1", SEAT_MAX_LIVE_S="1.5").wait_for("/health/ready")
    async with plain(seat) as first:
        await read(first, "ready")
        async with plain(seat) as second:
            (refusal,) = await rest(second)
            assert refusal["error"]["code"] == "too_many_sessions"
        assert closed_by(second) == (1013, "too_many_sessions")
        await say(first, speech([1]))
        messages = await rest(first)
    assert [message["text"] for message in messages if message["type"] == "final"] == ["one"]
    assert messages[-1]["reason"] == "session_limit"
    assert closed_by(first) == (1008, "session_limit")
    await nothing_left(seat)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_told_and_loses_no_words(start: Start, number: signal.Signals) -> None:
    """What has come is heard, the client knows why it ends, and the process leaves within its grace."""
    seat = start().wait_for("/health/ready")
    async with plain(seat) as socket, plain(seat) as idle, realtime(seat) as connection:
        assert (await connection.recv()).type == "session.created"
        await read(idle, "ready")
        await say(socket, speech([1, 2, 3], gap_s=0.1))
        await socket.send("junk")
        await read(socket, "error")  # the samples before it have arrived
        seat.stop(number)
        messages = await rest(socket)
        assert [message["text"] for message in messages if message["type"] == "final"] == ["one two three"]
        assert messages[-1]["reason"] == "shutting_down"
        assert closed_by(socket) == (1001, "shutting_down")
        assert (await rest(idle))[-1]["reason"] == "shutting_down"
        with pytest.raises(ConnectionClosed):
            await events_until(connection, "never")
    assert await asyncio.to_thread(seat.exit_code, within_s=10) == 0


async def test_a_model_that_hangs_keeps_no_process(start: Start) -> None:
    """With a session that waits for it, the seat leaves after SEAT_DRAIN_S."""
    seat = start(SEAT_DRAIN_S="0.5").wait_for("/health/ready")
    async with plain(seat) as socket:
        await say(socket, np.concatenate([speech([9]), SECOND]))
        await asyncio.to_thread(seat.wait_for_words, "nine")
        seat.stop()
        assert await asyncio.to_thread(seat.exit_code, within_s=10) == 0
        await rest(socket)
    assert seat.log_lines(event="drain_ended")


async def test_a_killed_client_leaves_nothing(start: Start) -> None:
    """Neither one that speaks nor one for whom the model is just at work; others are not disturbed."""
    seat = start().wait_for("/health/ready")
    async with plain(seat) as socket:
        await say(socket, speech([9]))
        await asyncio.to_thread(seat.wait_for_words, "nine")
        await say(socket, TALK)
        assert open_sessions(seat) == 1
        socket.transport.abort()
        await nothing_left(seat)
    seat.sign("nine")
    await asyncio.to_thread(kill_one, seat)
    await nothing_left(seat)
    line = seat.log_lines(event="request", path="/v1/audio/stream")[0]
    assert (line["status"], line["ended"]) == (101, "disconnected")


async def test_a_flood_is_held_back_and_heard(start: Start) -> None:
    """While the model hangs, a client can send no more than may wait; then all of it is heard, and memory is back."""
    seat = start(SEAT_MAX_LIVE_WAIT_S="3").wait_for("/health/ready")
    before_mib = seat.resident_mib()
    sound = np.concatenate([speech([9], gap_s=0.6), np.tile(np.concatenate([*[SECOND] * 9, speech([1, 2, 3])]), 100)])
    async with plain(seat) as socket:
        sending = asyncio.create_task(say(socket, sound, 64_000))
        await asyncio.to_thread(seat.wait_for_words, "nine")
        done, _ = await asyncio.wait({sending}, timeout=1)
        assert not done
        assert seat.resident_mib() < before_mib + 60
        seat.sign("nine")
        finals = asyncio.create_task(rest(socket))
        await sending
        await socket.send(json.dumps({"type": "close"}))
        heard = " ".join(message["text"] for message in await finals if message["type"] == "final")
    assert heard.split() == ["nine", *["one", "two", "three"] * 100]
    await nothing_left(seat)


async def test_a_thousand_connects_leave_nothing(start: Start) -> None:
    """Whatever they do in between: say hello, say nothing, say nonsense, break off."""
    seat = start().wait_for("/health/ready")

    def descriptors() -> int:
        return len(list(Path(f"/proc/{seat.process.pid}/fd").iterdir()))

    async def visit(number: int) -> None:
        async with plain(seat) as socket:
            await read(socket, "ready")
            if number % 4 == 1:
                await say(socket, speech([number % 7]))
            if number % 4 == 2:
                await socket.send("nonsense")
            if number % 4 == 3:
                socket.transport.abort()

    await asyncio.gather(*map(visit, range(20)))
    await nothing_left(seat)
    open_before, resident_before_mib = descriptors(), seat.resident_mib()
    for first in range(0, 1000, 20):
        await asyncio.gather(*map(visit, range(first, first + 20)))
    await nothing_left(seat)
    assert await asyncio.to_thread(until, lambda: descriptors() <= open_before + 2, what="descriptors are back")
    assert seat.resident_mib() < resident_before_mib + 30
    assert len(seat.log_lines(event="request", path="/v1/audio/stream")) == 1020
    assert seat.log_lines(event="fault") == []
    assert "Traceback" not in seat.log_text()


# OpenAI's client


@asynccontextmanager
async def realtime(seat: Seat, key: str = "unused", **query: str) -> AsyncIterator[AsyncRealtimeConnection]:
    """The openai SDK's own connection."""
    client = openai.AsyncOpenAI(base_url=f"{seat.url}/v1", api_key=key)
    async with (
        asyncio.timeout(PATIENCE_S),
        client,
        client.realtime.connect(extra_query={"intent": "transcription", **query}) as connection,
    ):
        yield connection


def set_up(**heard: Any) -> Any:
    """A session for 16 kHz and these fields of its input."""
    form = {"type": "audio/pcm", "rate": 16_000}
    return {"type": "transcription", "audio": {"input": {"format": form, **heard}}}


async def append(connection: AsyncRealtimeConnection, data: bytes, nbytes: int = 6_400) -> None:
    """Send audio as callers do."""
    for first in range(0, len(data), nbytes):
        audio = base64.b64encode(data[first : first + nbytes]).decode()
        await connection.input_audio_buffer.append(audio=audio)


async def events_until(connection: AsyncRealtimeConnection, kind: str, count: int = 1) -> list[Any]:
    """All events up to the last of so many of a kind."""
    events: list[Any] = []
    while sum(event.type == kind for event in events) < count:
        events.append(await connection.recv())
    return events


async def test_the_openai_client_with_server_vad(fake: FakeSeat) -> None:
    """Turns are found; each has its events in order, its deltas make up its transcript, and it has a price."""
    async with realtime(fake) as connection:
        created = await connection.recv()
        assert (created.type, created.session.type) == ("session.created", "transcription")
        detection = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
        wanted = set_up(turn_detection=detection, transcription={"model": "whisper-1", "language": "en", "prompt": "x"})
        wanted["include"] = ["item.input_audio_transcription.logprobs"]
        await connection.session.update(session=wanted)
        updated = await connection.recv()
        assert updated.type == "session.updated"
        assert updated.session.audio.input.transcription.model == "whisper-1"
        assert updated.session.audio.input.turn_detection.silence_duration_ms == 500
        await append(connection, TALK.tobytes())
        events = await events_until(connection, f"{TRANSCRIPTION}.completed", 2)
    started, *_ = [event for event in events if event.type == "input_audio_buffer.speech_started"]
    assert started.audio_start_ms <= 300
    items = [event.item_id for event in events if event.type == "input_audio_buffer.committed"]
    completed = [event for event in events if event.type == f"{TRANSCRIPTION}.completed"]
    assert [event.item_id for event in completed] == items
    assert [event.transcript for event in completed] == SAID
    for event in completed:
        mine = [other for other in events if getattr(other, "item_id", None) == event.item_id]
        assert "".join(other.delta for other in mine if other.type == f"{TRANSCRIPTION}.delta") == event.transcript
        kinds = [other.type.rpartition(".")[2] for other in mine]
        order = [kind for kind in kinds if kind != "delta"]
        assert order == ["speech_started", "speech_stopped", "committed", "completed"]
        assert event.usage.type == "duration"
        assert event.usage.seconds > 1
        assert "".join(each.token for each in event.logprobs).strip() == event.transcript
        assert all(each.logprob <= 0 for each in event.logprobs)


async def test_the_openai_client_that_pushes_to_talk(fake: FakeSeat) -> None:
    """Without turn detection only a commit ends a turn; what is cleared is not heard; too little is refused by name."""
    async with realtime(fake) as connection:
        await connection.session.update(session=set_up(turn_detection=None))
        await events_until(connection, "session.updated")
        previous = None
        for digits, text in [([1, 2, 3], "one two three"), ([4], "four")]:
            await append(connection, np.concatenate([speech(digits), SECOND]).tobytes())
            await connection.input_audio_buffer.commit()
            events = await events_until(connection, f"{TRANSCRIPTION}.completed")
            (committed,) = [event for event in events if event.type == "input_audio_buffer.committed"]
            assert committed.previous_item_id == previous
            previous = committed.item_id
            assert (events[-1].item_id, events[-1].transcript) == (previous, text)
        await append(connection, speech([5]).tobytes())
        await connection.input_audio_buffer.clear()
        await events_until(connection, "input_audio_buffer.cleared")
        await connection.input_audio_buffer.commit(event_id="mine")
        event = await connection.recv()
        assert (event.type, event.error.code) == ("error", "input_audio_buffer_commit_empty")
        assert event.error.event_id == "mine"


async def test_every_wrong_event_is_answered_with_its_id(fake: FakeSeat) -> None:
    """And the session is as it was."""
    wrong: list[tuple[Message, str | None]] = [
        ({"type": "response.create"}, "type"),
        ({"type": "input_audio_buffer.append", "audio": "no base64!"}, "audio"),
        ({"type": "input_audio_buffer.append"}, "audio"),
        ({"type": "session.update", "session": set_up(turn_detection={"type": "semantic_vad"})},
         "session.audio.input.turn_detection.type"),
        ({"type": "session.update", "session": set_up(transcription={"model": "large-v3"})}, "model"),
        ({"type": "session.update"}, None),
    ]  # fmt: skip
    async with realtime(fake) as connection:
        await connection.recv()
        for number, (event, param) in enumerate(wrong):
            await connection.send_raw(json.dumps({**event, "event_id": f"event-{number}"}))
            answer = await connection.recv()
            if param is None:
                assert answer.type == "session.updated"
                continue
            assert (answer.type, answer.error.event_id, answer.error.param) == ("error", f"event-{number}", param)
            assert answer.error.type == "invalid_request_error"
        await connection.send_raw("{")
        assert (await connection.recv()).error.event_id is None
        await connection.session.update(session=set_up())
        await events_until(connection, "session.updated")
        await append(connection, TALK.tobytes())
        events = await events_until(connection, f"{TRANSCRIPTION}.completed", 2)
        assert events[-1].transcript == SAID[1]


async def test_a_stretch_that_fails_is_an_event(fake: FakeSeat) -> None:
    """The item fails, with the reason; the session goes on."""
    async with realtime(fake) as connection:
        await connection.session.update(session=set_up())
        await append(connection, np.concatenate([speech([7]), *[SECOND] * 7, speech([1]), SECOND]).tobytes())
        events = await events_until(connection, f"{TRANSCRIPTION}.completed")
    (failed,) = [event for event in events if event.type == f"{TRANSCRIPTION}.failed"]
    assert failed.error.code == "recognition_failed"
    assert (events[-1].transcript, events[-1].item_id != failed.item_id) == ("one", True)


async def test_the_older_names_work(fake: FakeSeat) -> None:
    """For clients of the time when they were the only ones."""
    address = fake.url.replace("http", "ws") + "/v1/realtime?intent=transcription"
    headers = {"OpenAI-Beta": "realtime=v1"}
    async with asyncio.timeout(PATIENCE_S), connect(address, additional_headers=headers) as socket:
        assert json.loads(await socket.recv())["type"] == "transcription_session.created"
        session = {"input_audio_format": "g711_ulaw", "turn_detection": None}
        await socket.send(json.dumps({"type": "transcription_session.update", "session": session}))
        updated = await read(socket, "transcription_session.updated")
        assert (updated["session"]["input_audio_format"], updated["session"]["turn_detection"]) == ("g711_ulaw", None)
        audio = base64.b64encode(b"\xff" * 8_000).decode()
        await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        await socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        assert (await read(socket, f"{TRANSCRIPTION}.completed"))["transcript"] == ""


async def test_a_conversation_is_no_transcription(fake: FakeSeat) -> None:
    """Another intent is refused, and so is a model that is not here."""
    for query, param in [({"intent": "conversation"}, "intent"), ({"model": "gpt-realtime"}, "model")]:
        async with realtime(fake, **query) as connection:
            event = await connection.recv()
            assert (event.type, event.error.param) == ("error", param)


async def test_the_openai_client_hears_the_bundled_clips(seat: Seat, clips: dict[Path, str]) -> None:
    """At its own 24 kHz, with the bundled model, and by G.711: the words that the file has."""
    for path, text in clips.items():
        clip, rate = soundfile.read(path, dtype="float32")
        sound = np.round(soxr.resample(clip, rate, 24_000) * 32_767).astype(np.int16)
        async with realtime(seat) as connection:
            await connection.session.update(
                session={"type": "transcription", "audio": {"input": {"turn_detection": None}}}
            )
            await append(connection, sound.tobytes(), 48_000)
            await connection.input_audio_buffer.commit()
            events = await events_until(connection, f"{TRANSCRIPTION}.completed")
        assert events[-1].transcript == text
        assert events[-1].usage.seconds == pytest.approx(len(clip) / rate, abs=0.1)


# Our own client


def live(*arguments: str | Path, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `seat live` to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEAT_")}
    command = [sys.executable, "-m", "seat", "live", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, input=given, capture_output=True, timeout=PATIENCE_S, check=False
    )


def test_the_command_prints_what_is_said(seat: Seat) -> None:
    """A line for each turn, of a file at any speed and of raw samples from standard input."""
    clip = ROOT / "seat" / "demo" / "clips" / "call.flac"
    result = live(clip, "--url", seat.url, "--speed", "4")
    assert (result.returncode, " ".join(result.stdout.decode().split())) == (0, "Seven three alpha. Stop please.")
    samples, rate = soundfile.read(clip, dtype="int16")
    assert rate == SAMPLE_RATE
    piped = live("-", "--url", seat.url, "--json", given=samples.tobytes())
    messages = [json.loads(line) for line in piped.stdout.decode().splitlines()]
    assert (messages[0]["type"], messages[-1]["type"]) == ("ready", "closed")
    finals = [message["text"] for message in messages if message["type"] == "final"]
    assert " ".join(finals) == "Seven three alpha. Stop please."


def test_the_command_says_what_is_wrong(start: Start, tmp_path: Path) -> None:
    """One sentence, no traceback, exit code 1."""
    seat = start(SEAT_API_KEYS="right-key").wait_for("/health/ready")
    clip = ROOT / "seat" / "demo" / "clips" / "call.flac"
    for arguments, said in [
        ([clip, "--url", seat.url, "--api-key", "wrong"], "Incorrect API key provided."),
        ([clip, "--url", seat.url, "--api-key", "right-key", "--model-name", "large-v3"], "does not exist"),
        ([clip, "--url", "http://127.0.0.1:9"], "No server answers at"),
        ([tmp_path / "missing.wav", "--url", seat.url], "No such file"),
    ]:
        result = live(*arguments)
        assert result.returncode == 1
        assert said in result.stderr.decode()
        assert "Traceback" not in result.stderr.decode()
