"""The plain live protocol on a real server, and `seat live`, which speaks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from seat.recognizer import SAMPLE_RATE
from seat.web.openapi import SCHEMAS
from tests.fakes import speech
from tests.process.callers import (
    SAID,
    TALK,
    closed_by,
    plain,
    read,
    rest,
    say,
)
from tests.process.conftest import Start
from tests.process.seats import PATIENCE_S, ROOT, FakeSeat, Seat

pytestmark = pytest.mark.process


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
    for message in [ready, *messages]:
        described = SCHEMAS[f"Stream{message['type'].title()}"]["properties"]
        assert list(message) == list(described)


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
    wrong = [
        "",
        "{",
        "[]",
        "7",
        '{"type":"\\ud800"}',
        '{"type":7}',
        '{"type":"unknown"}',
        "{}",
        "[" * 100_000,
        '"\\ud800"',
    ]
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
