"""Send sound to a running seat as it comes, and yield what comes back. Knows the plain live protocol from outside.

See `seat.web.stream` for the protocol; errors are those of `seat.client`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import numpy as np
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from seat import audio
from seat.client import CONNECT_WITHIN_S, Refused, Unintelligible, Unreachable, authorization, base_url
from seat.pcm import PcmReader
from seat.recognizer import SAMPLE_RATE, Waveform

MICROPHONE, STDIN = "mic", "-"
"""Stand for this machine's microphone, and for raw samples from standard input."""

RAW_NBYTES: Final = 6400
"""Bytes of raw samples sent at once at most: 0.2 s."""

BLOCK_S: Final = 0.1
"""Seconds of sound in one message: what a caller notices as delay, and few enough messages."""


def captions(
    url: str, sound: Iterable[Waveform], *, api_key: str | None = None, model: str | None = None
) -> Iterator[dict[str, Any]]:
    """Have a server hear sound as it comes.

    Args:
        url: As for `seat.client.Client`.
        sound: Pieces, read in a thread of their own; a generator may wait for each.
        api_key: The server's key, or None.
        model: One of its models; None for the one it has.

    Yields:
        Messages of the server, up to and with the one that says it has closed.

    Raises:
        NoTranscript: The address is none, or the server is not there, refuses, or breaks off.
    """
    scheme, rest = base_url(url).split("://", 1)
    address = f"{'wss' if scheme.lower() == 'https' else 'ws'}://{rest}/audio/stream?sample_rate={SAMPLE_RATE}"
    headers = authorization(api_key)
    try:
        with connect(
            address,
            additional_headers=headers,
            open_timeout=CONNECT_WITHIN_S,
            ping_timeout=None,  # a pong stands behind audio that waits to be heard
            max_size=None,
        ) as socket:
            yield from _conversation(socket, url, sound, model)
    except InvalidStatus as fault:
        raise Unintelligible(url=url, answer=f"it has no live transcription ({fault})") from fault
    except InvalidURI as fault:
        raise Unintelligible(url=url, answer=str(fault)) from fault
    except (OSError, InvalidHandshake, WebSocketException) as fault:
        raise Unreachable(url=url, reason=str(fault) or type(fault).__name__) from fault


def _conversation(
    socket: Connection, url: str, sound: Iterable[Waveform], model: str | None
) -> Iterator[dict[str, Any]]:
    faults: list[Exception] = []

    def speak() -> None:
        try:
            for piece in sound:
                socket.send(piece.tobytes())
            socket.send(json.dumps({"type": "close"}))
        except Exception as fault:  # noqa: BLE001  the microphone's belong to who reads; the socket's end the reading too
            faults.append(fault)
            socket.close()

    if model:
        socket.send(json.dumps({"type": "start", "model": model}))
    speaker = threading.Thread(target=speak, name="speak", daemon=True)
    for text in socket:
        message = _read(text, url)
        if message["type"] == "error":
            raise _refused(message["error"])
        yield message
        if message["type"] == "ready":
            speaker.start()
        if message["type"] == "closed":
            return
    if faults and not isinstance(faults[0], WebSocketException):
        raise faults[0]
    raise Unreachable(url=url, reason="it broke off")


def _read(text: str | bytes, url: str) -> dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(text)
        message["type"]
    except (ValueError, KeyError, TypeError) as fault:
        raise Unintelligible(url=url, answer="it says what no seat says") from fault
    return message


def _refused(error: dict[str, Any]) -> Refused:
    return Refused(
        status=HTTPStatus.SWITCHING_PROTOCOLS,
        message=str(error["message"]),
        reason=error.get("code"),
        retry_after_s=None,
    )


def paced(waveform: Waveform, speed: float) -> Iterator[Waveform]:
    """Pieces of a recording, as fast as somebody would say them, times the speed; 0 for without waiting."""
    block = round(BLOCK_S * SAMPLE_RATE)
    began_at = time.monotonic()
    for first in range(0, len(waveform), block):
        stop = min(first + block, len(waveform))
        if speed:  # a piece has been said at its end
            time.sleep(max(0.0, began_at + stop / SAMPLE_RATE / speed - time.monotonic()))
        yield np.ascontiguousarray(waveform[first:stop])


def sound_of(source: str, speed: float) -> Iterable[Waveform]:
    """What `seat live` hears: the microphone, raw samples from standard input as they come, or a file, paced."""
    if source == MICROPHONE:
        from seat.microphone import listen

        return listen()
    if source == STDIN:
        reader = PcmReader("pcm16", SAMPLE_RATE)
        read = getattr(sys.stdin.buffer, "read1", sys.stdin.buffer.read)
        return map(reader.read, iter(partial(read, RAW_NBYTES), b""))
    with Path(source).open("rb") as file:
        return paced(audio.decode(file, limit_s=None), speed)
