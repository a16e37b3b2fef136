"""What happens in a live session. Knows turns, words and times; no audio, no socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seat.errors import SeatError
from seat.utterance import Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """Somebody begins to speak."""

    turn: int
    """The turn's number, from 1."""
    at_s: float
    """Where it begins, in seconds of the stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """The turn is over; its last words are still to come."""

    turn: int
    """Its number."""
    at_s: float
    """Where it ends, the silence included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What has been heard of a turn; a `Whole` never changes."""

    turn: int
    """Its number."""
    added: str
    """What became firm since the last time; the parts of a turn make up its final text."""
    snapshot: Callable[[], Snapshot]
    """The turn as it stands; ask before the event has been dealt with."""
    audio_s: float
    """Seconds of audio in it so far."""
    start_s: float
    """Where the turn begins, in seconds of the stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole(Words):
    """All that was said in a turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A stretch of a turn could not be heard, so that there is no `Whole`; the stream goes on behind it."""

    turn: int
    """Its number."""
    fault: SeatError
    """Why."""


Event = Started | Stopped | Words | Failed
"""Anything of these."""
