"""Take readings from a seat over HTTP, as a client and as bytes on a socket. Judges nothing; knows no model.

The clips are the bundled ones: it is known what is said in them.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx
import numpy as np

from seat import demo
from seat.client import Client, Unreachable, Wish
from seat.recognizer import SAMPLE_RATE
from seat.wav import wav

SILENCE_S: Final = 3.0
"""Seconds of silence that are sent."""

WARM_REQUESTS: Final = 3
"""Requests of each length; the fastest counts, as what else the machine does only ever adds."""

SOCKET_WITHIN_S: Final = 10.0
"""Seconds for an answer on a bare socket."""

STATUS_LINE_NBYTES: Final = 256
"""Bytes of a raw answer that are looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hearing:
    """What a seat heard, and how long it took."""

    said: str
    """What the clip says."""
    heard: str
    """What it heard in it."""
    heard_in_silence: str
    """What it heard in silence."""
    first_s: float
    """Seconds of the first request."""
    warm_s: float
    """Seconds of the fastest that followed, with the same clip."""
    s_per_audio_s: float
    """Seconds that each further second of audio takes, from a short and a long clip."""


def listen(client: Client) -> Hearing:
    """Have the bundled clips and silence transcribed.

    Raises:
        NoTranscript: The seat refuses, or is not there.
    """
    clips = demo.clips()
    short = min(clips, key=lambda clip: abs(clip.seconds - demo.WANTED_CLIP_S))
    long = clips[-1]
    wish = Wish(model=client.models()[0], response_format="text")

    def timed(content: bytes) -> tuple[float, str]:
        began_at = time.perf_counter()
        heard = client.transcribe(io.BytesIO(content), "clip.flac", wish)
        return time.perf_counter() - began_at, heard.strip()

    content = short.path.read_bytes()
    silence = np.zeros(round(SILENCE_S * SAMPLE_RATE), np.int16)
    first_s, heard = timed(content)
    warm_s = min(timed(content)[0] for _ in range(WARM_REQUESTS))
    long_s = min(timed(long.path.read_bytes())[0] for _ in range(WARM_REQUESTS))
    return Hearing(
        said=short.text,
        heard=heard,
        heard_in_silence=timed(wav(silence))[1],
        first_s=first_s,
        warm_s=warm_s,
        s_per_audio_s=max(0.0, long_s - warm_s) / (long.seconds - short.seconds),
    )


def status_lines(url: str) -> Mapping[str, bytes]:
    """The first bytes of raw answers, good and bad, by what was asked.

    Args:
        url: The address of the API, with '/v1'.

    Raises:
        Unreachable: Nothing answers there.
    """
    address = httpx.URL(url)
    root = address.path.removesuffix("/v1")
    asked = {
        "GET /health": b"",
        "GET /v1/no-such-thing": b"",
        "POST /v1/audio/transcriptions": b"no form",
    }
    return {request: _exchange(address, request, root, body) for request, body in asked.items()}


def _exchange(address: httpx.URL, request: str, root: str, body: bytes) -> bytes:
    method, path = request.split()
    head = f"{method} {root}{path} HTTP/1.1\r\nhost: {address.netloc.decode()}\r\nconnection: close\r\n"
    secure = address.scheme == "https"
    where = (address.host, address.port or (443 if secure else 80))
    try:
        connection = socket.create_connection(where, SOCKET_WITHIN_S)
        if secure:
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=where[0])
        with connection:
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            return connection.recv(STATUS_LINE_NBYTES)
    except OSError as fault:
        raise Unreachable(url=str(address), reason=str(fault)) from fault
