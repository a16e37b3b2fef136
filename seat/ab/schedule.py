"""Say who is asked for what, and when. Knows turns and bins of length; no server, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Side = Literal["A", "B"]

BINS: Final[tuple[tuple[str, float], ...]] = (
    ("1-3 s", 3.0),
    ("3-8 s", 8.0),
    ("8-20 s", 20.0),
    ("20-60 s", 60.0),
    ("long", float("inf")),
)
"""Names of the bins of length, and the seconds that a clip of each stays under."""

ONCE: Final[tuple[tuple[Side, Side], ...]] = (("A", "B"), ("B", "A"))
"""Two rounds: A B B A, so that a machine that gets steadily slower or faster favours nobody."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One request."""

    clip: int
    """Which clip, from 0."""
    side: Side
    """Who is asked."""
    round: int
    """Which round, from 0; two turns with one clip and one round are a pair. -1 is warm-up, and does not count."""


def turns(clips: int, rounds: int) -> Iterator[Turn]:
    """The requests of a run: each clip once to each side as warm-up, then round by round, each clip A B or B A.

    Args:
        clips: How many there are.
        rounds: How often each is sent to each side.
    """
    for number in range(-1, rounds):
        for clip in range(clips):
            # The next clip begins with the other side, too: what follows a clip is not always the same side.
            for side in ONCE[(number + clip) % 2]:
                yield Turn(clip=clip, side=side, round=number)


def count(clips: int, rounds: int) -> int:
    """Requests of a run, warm-up included: two sides are asked."""
    return 2 * clips * (rounds + 1)


def bin_of(seconds: float) -> str:
    """The bin of a clip's length."""
    return next(name for name, below in BINS if seconds < below)
