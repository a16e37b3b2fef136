"""Live sessions from start to end: keys, bounds, signals, and clients that behave badly."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.fakes import speech
from tests.process.callers import (
    SECOND,
    TALK,
    TRANSCRIPTION,
    append,
    closed_by,
    events_until,
    nothing_left,
    open_sessions,
    plain,
    read,
    realtime,
    rest,
    say,
    set_up,
)
from tests.process.conftest import Start
from tests.process.seats import ROOT, Seat, until

pytestmark = pytest.mark.process


async def test_keys_are_asked_for_as_over_http(start: Start) -> None:
    """In the header, as a subprotocol, or in the first message; a wrong one is an error, and told in no log."""
    seat = start(SEAT_API_KEYS="right-key").wait_for("/health/ready")
    bearer = {"additional_headers": {"Authorization": "Bearer right-key"}}
    protocols = {"subprotocols": ["realtime", "openai-insecure-api-key.right-key"]}
    key_alone = {"subprotocols": ["openai-insecure-api-key.right-key"]}
    selected = (None, "realtime", "openai-insecure-api-key.right-key")
    for options, subprotocol in zip((bearer, protocols, key_alone), selected, strict=True):
        async with plain(seat, **options) as socket:
            assert (await read(socket, "ready"))["model"] == "demo"
            assert socket.subprotocol == subprotocol
    async with plain(seat) as socket:
        await socket.send(json.dumps({"type": "start", "key": "right-key"}))
        await read(socket, "ready")
    for first in (
        json.dumps({"type": "start", "key": "wrong-key"}),
        '{"type":"start","key":"\\ud800"}',
        b"\0\0",
        json.dumps({"type": "close"}),
    ):
        async with plain(seat) as socket:
            await socket.send(first)
            assert (await read(socket, "error"))["error"]["code"] == "invalid_api_key"
    async with realtime(seat, key="wrong-key") as connection:
        event = await connection.recv()
        assert (event.type, event.error.code) == ("error", "invalid_api_key")
    assert "-key" not in seat.log_text()


async def test_the_message_that_shows_the_key_says_more(start: Start) -> None:
    """It may be any, and is obeyed like any other."""
    seat = start(SEAT_API_KEYS="right-key").wait_for("/health/ready")
    async with plain(seat) as socket:
        await socket.send(json.dumps({"type": "start", "model": "nonsense", "key": "right-key"}))
        await read(socket, "ready")
        assert (await read(socket, "error"))["error"]["code"] == "model_not_found"
    async with plain(seat) as socket:
        await socket.send(json.dumps({"type": "finalize", "key": "right-key"}))
        await read(socket, "ready")
        assert (await read(socket, "final"))["text"] == ""


async def test_who_is_refused_while_speaking_hears_why(start: Start) -> None:
    """Though ten megabytes are on their way that nobody will hear."""
    seat = start(SEAT_API_KEYS="right-key").wait_for("/health/ready")
    async with plain(seat) as socket:
        await socket.send(json.dumps({"type": "start", "key": "wrong-key"}))
        for _ in range(50):
            await socket.send(bytes(200_000))
        (refusal,) = await rest(socket)
        assert refusal["error"]["code"] == "invalid_api_key"
    assert closed_by(socket) == (1008, "invalid_api_key")


async def test_clients_without_a_key_are_bounded(start: Start) -> None:
    """Those that show theirs in the handshake come in beside them."""
    seat = start(SEAT_API_KEYS="right-key").wait_for("/health/ready")
    async with AsyncExitStack() as stack:
        for _ in range(8):
            await stack.enter_async_context(plain(seat))
        async with plain(seat) as one_more:
            (refusal,) = await rest(one_more)
            assert refusal["error"]["code"] == "too_many_sessions"
        assert closed_by(one_more) == (1013, "too_many_sessions")
        async with plain(seat, additional_headers={"Authorization": "Bearer right-key"}) as socket:
            await read(socket, "ready")
    async with plain(seat) as socket:
        await socket.send(json.dumps({"type": "start", "key": "right-key"}))
        await read(socket, "ready")


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


async def test_what_only_a_commit_ends_is_committed_at_a_signal(start: Start) -> None:
    """Nobody has stopped speaking where nobody listened for that."""
    seat = start().wait_for("/health/ready")
    async with realtime(seat) as connection:
        await connection.session.update(session=set_up(turn_detection=None))
        await events_until(connection, "session.updated")
        await append(connection, speech([1, 2]).tobytes())
        await connection.send_raw("junk")
        await events_until(connection, "error")  # the samples before it have arrived
        seat.stop()
        events = await events_until(connection, f"{TRANSCRIPTION}.completed")
    assert events[-1].transcript == "one two"
    kinds = [event.type for event in events if event.type.startswith("input_audio_buffer")]
    assert kinds == ["input_audio_buffer.committed"]


async def test_a_model_that_hangs_keeps_no_process(start: Start) -> None:
    """With a session that waits for it, the seat leaves after SEAT_DRAIN_S, and the client is told why."""
    seat = start(SEAT_DRAIN_S="0.5").wait_for("/health/ready")
    async with plain(seat) as socket:
        await say(socket, np.concatenate([speech([9]), SECOND]))
        await asyncio.to_thread(seat.wait_for_words, "nine")
        seat.stop()
        assert await asyncio.to_thread(seat.exit_code, within_s=10) == 0
        await rest(socket)
        assert closed_by(socket) == (1001, "shutting_down")
    assert [line["cut_off"] for line in seat.log_lines(event="drain_ended")] == [1]
    assert [line["error"] for line in seat.log_lines(event="request")] == ["shutting_down"]
    assert "Traceback" not in seat.log_text()


async def test_a_model_that_hangs_is_told_to_who_speaks(start: Start) -> None:
    """After SEAT_STALL_S, as an error; the session goes on, and hears what is said once the model answers again."""
    seat = start(SEAT_STALL_S="1").wait_for("/health/ready")
    async with plain(seat) as socket:
        await say(socket, np.concatenate([speech([9]), SECOND]))
        assert (await read(socket, "error"))["error"]["code"] == "gpu_stalled"
        seat.sign("nine")
        await say(socket, np.concatenate([speech([1]), SECOND]))
        assert (await read(socket, "final"))["text"] == "one"


def kill_one(seat: Seat) -> None:
    """Start a client, and kill it once it is inside."""
    command = [sys.executable, "-m", "seat", "live", "-", "--url", seat.url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as client:
        until(lambda: open_sessions(seat) == 1, what="the client is inside")
        client.kill()


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
    sound = np.concatenate([speech([9], gap_s=0.6), np.tile(np.concatenate([*[SECOND] * 9, speech([1, 2, 3])]), 60)])
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
    assert heard.split() == ["nine", *["one", "two", "three"] * 60]
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


async def test_a_seat_that_loads_says_so(start: Start) -> None:
    """The client may come again; a path that is none is refused as a handshake."""
    seat = start("--slow-load").wait_for("/health/live")
    async with plain(seat) as socket:
        (refusal,) = await rest(socket)
    assert refusal["error"]["code"] == "model_loading"
    assert closed_by(socket) == (1013, "model_loading")
    with pytest.raises(InvalidStatus):
        await connect(seat.url.replace("http", "ws") + "/v1/nowhere")
    (line,) = seat.log_lines(event="request", path="/v1/nowhere")
    assert line["status"] == 403
