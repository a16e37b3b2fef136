"""OpenAI's realtime protocol on a real server, by OpenAI's own client where it can say it."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from websockets.asyncio.client import connect

from tests.fakes import speech
from tests.process.callers import (
    SAID,
    SECOND,
    TALK,
    TRANSCRIPTION,
    Message,
    append,
    events_until,
    read,
    realtime,
    set_up,
)
from tests.process.seats import PATIENCE_S, FakeSeat, Seat, until

pytestmark = pytest.mark.process


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
        ({"type": "\ud800"}, "type"),
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
    await asyncio.to_thread(
        until, lambda: fake.log_lines(event="request", error="recognition_failed", status=101), what="its line says so"
    )


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
