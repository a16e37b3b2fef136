"""Reach the two sides: a server at an address, or a seat that is started for it with settings of its own.

Knows addresses, settings and requests; judges nothing.

    SeatError
    └── NoContender                 what was named is neither an address nor settings
"""

from __future__ import annotations

import io
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from seat.child import Child
from seat.client import Client, NoTranscript, Refused, Unintelligible, Unreachable, Wish
from seat.errors import SeatError

ANSWER_WITHIN_S: Final = 600.0
"""Seconds for an answer: as long as a seat's own deadline."""

_SETTING: Final = re.compile(r"SEAT_\w+=.*")


class NoContender(SeatError):
    """What was named is neither an address nor settings."""

    def __init__(self, *, named: str) -> None:
        super().__init__(
            f"'{named}' is neither an address, such as http://127.0.0.1:8300, nor settings of a seat to start, such as "
            "'SEAT_WINDOW_S=20 SEAT_DTYPE=float32'; 'seat' is one with the settings of this environment."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """What came back for a clip."""

    seconds: float
    """From the first byte sent to the last received."""
    text: str
    """The words; empty where there are none, or where it was refused."""
    error: str | None
    """Why there are none, where it was refused or what came back was no transcript; None where it was one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """One side, ready to be asked."""

    name: str
    """As the user named it."""
    hear: Callable[[bytes], Heard]
    """Send a WAV file and wait."""
    health: Callable[[], dict[str, Any] | None]
    """A seat's own /health; None where it has none."""


@contextmanager
def opened(named: str, api_key: str | None, model: str | None) -> Iterator[Contender]:
    """Reach one side, starting it where it is settings, and wait until it is ready.

    Args:
        named: An address, 'seat', or settings as NAME=VALUE, quoted as a shell does.
        api_key: The key of a server that is running.
        model: Which of its models; None for its first, or 'whisper-1' where it does not tell.

    Raises:
        NoContender: It is none of these.
        NoChild: A seat that was to be started is not there.
        NoTranscript: The address is none, or nothing answers.
    """
    settings = _settings(named)
    if settings is None:
        with _client(named, api_key) as client:
            yield _contender(named, client, model)
        return
    with Child(settings) as child, _client(child.url, None) as client:
        child.wait_until_ready(client)
        yield _contender(named, client, model)


def _settings(named: str) -> dict[str, str] | None:
    """Settings by name, or None for an address."""
    if named == "seat":
        return {}
    try:
        words = shlex.split(named)
    except ValueError as fault:  # a quote that is not closed
        raise NoContender(named=named) from fault
    if words and all(map(_SETTING.fullmatch, words)):
        return dict(word.split("=", 1) for word in words)
    if len(words) == 1 and ":" in named:
        return None
    raise NoContender(named=named)


def _client(url: str, api_key: str | None) -> Client:
    """A client that no proxy of the environment's stands in front of: what is timed is the server."""
    return Client(url, api_key=api_key, timeout_s=ANSWER_WITHIN_S, transport=httpx.HTTPTransport())


def _contender(name: str, client: Client, model: str | None) -> Contender:
    wish = Wish(model=model or _first_model(client), response_format="json")

    def hear(wav: bytes) -> Heard:
        began_at = time.perf_counter()
        try:
            text = str(json.loads(client.transcribe(io.BytesIO(wav), "clip.wav", wish))["text"])
        except (Refused, Unintelligible) as fault:
            return Heard(seconds=time.perf_counter() - began_at, text="", error=str(fault))
        return Heard(seconds=time.perf_counter() - began_at, text=text, error=None)

    def health() -> dict[str, Any] | None:
        try:
            return client.health()
        except NoTranscript:
            return None

    return Contender(name=name, hear=hear, health=health)


def _first_model(client: Client) -> str:
    try:
        return client.models()[0]
    except Unreachable:
        raise
    except NoTranscript:  # it has no list of them, and perhaps no names either
        return "whisper-1"
