"""Speak to a seat as live clients do, by both protocols. Knows their messages; tests nothing."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
import openai
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from seat.recognizer import SAMPLE_RATE, Waveform
from tests.fakes import speech
from tests.process.seats import PATIENCE_S, Seat, until

SECOND = np.zeros(SAMPLE_RATE, np.int16)
"""A second of digital silence."""

TALK = np.concatenate([speech([1, 2, 3], gap_s=0.3), SECOND, SECOND, speech([4, 5, 6, 1, 2, 3], gap_s=0.3), SECOND])
"""Two turns for the fake model."""

SAID = ["one two three", "four five six one two three"]
"""What is said in them."""

TRANSCRIPTION = "conversation.item.input_audio_transcription"
"""What OpenAI's events about words begin with."""

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


async def nothing_left(seat: Seat) -> None:
    """Wait until no session is open."""
    await asyncio.to_thread(until, lambda: open_sessions(seat) == 0, what="all sessions are gone")


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
