"""Run a comparison and gather what it says. Knows turns, times and texts; writes nothing."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from seat.ab.clips import Clip
from seat.ab.contenders import Contender, Heard
from seat.ab.probes import Probe, probe
from seat.ab.schedule import BINS, Side, bin_of, turns
from seat.ab.statistics import Compared, Cost, compare, cost
from seat.ab.words import Accuracy, accuracy
from seat.meter import MIB

LINE_TO_S: Final = 60.0
"""Seconds of audio up to which a request's time is taken for a line; longer audio is cut by some servers only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """What the turns of a run gave."""

    pairs: dict[int, list[tuple[float, float]]]
    """Seconds of A and B by clip, round by round; pairs of which one was refused are left out."""
    texts: dict[Side, dict[int, str]]
    """What each side heard, by clip, in the last round in which it was not refused."""
    refused: dict[Side, list[str]]
    """Why requests were refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Everything that a report tells."""

    a: str
    """One side, as it was named."""
    b: str
    """The other."""
    machine: str
    """Where this process ran, and when."""
    rounds: int
    """Rounds that count."""
    latency: dict[str, Compared]
    """Times by bin of length; bins without clips are left out."""
    cost: dict[Side, Cost | None]
    """Each side's time as a line over the length."""
    accuracy: Accuracy | None
    """Word errors; None where nothing is known to be said."""
    probes: list[Probe]
    """What is hard."""
    memory: dict[str, str]
    """What each process takes, by who it is, as far as anybody tells."""
    refused: dict[Side, list[str]]
    """Why requests were refused."""


def run(
    a: Contender, b: Contender, clips: Sequence[Clip], rounds: int, on_turn: Callable[[], None]
) -> tuple[Comparison, Series]:
    """Send every clip to both sides, interleaved, then what is hard; one request at a time.

    Args:
        a: One side.
        b: The other.
        clips: At least one.
        rounds: How often each clip counts for each side.
        on_turn: Called after each request.
    """
    series = _series(a, b, clips, rounds, on_turn)
    bins = {name: [series.pairs[n] for n, clip in enumerate(clips) if bin_of(clip.seconds) == name] for name, _ in BINS}
    answered = [number for number in range(len(clips)) if all(number in texts for texts in series.texts.values())]
    said = {number: clips[number].text for number in answered if clips[number].text}
    lengths: defaultdict[float, list[tuple[float, float]]] = defaultdict(list)
    for clip, pairs in zip(clips, series.pairs.values(), strict=True):
        if pairs and clip.seconds < LINE_TO_S:
            lengths[clip.seconds] += pairs
    told = Comparison(
        a=a.name,
        b=b.name,
        machine=f"{platform.machine()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}",
        rounds=rounds,
        latency={name: compare(found) for name, pairs in bins.items() if (found := [each for each in pairs if each])},
        cost={
            "A": cost({seconds: [a_s for a_s, _ in pairs] for seconds, pairs in lengths.items()}),
            "B": cost({seconds: [b_s for _, b_s in pairs] for seconds, pairs in lengths.items()}),
        },
        accuracy=accuracy(said, series.texts["A"], series.texts["B"]),
        probes=probe(a, b, clips),
        memory=_memory(a, b),
        refused=series.refused,
    )
    return told, series


def _series(a: Contender, b: Contender, clips: Sequence[Clip], rounds: int, on_turn: Callable[[], None]) -> Series:
    sides: dict[Side, Contender] = {"A": a, "B": b}
    files = [clip.wav for clip in clips]
    series = Series(
        pairs={number: [] for number in range(len(clips))},
        texts={side: {} for side in sides},
        refused={side: [] for side in sides},
    )
    pending: dict[Side, Heard] = {}
    for turn in turns(len(clips), rounds):
        heard = sides[turn.side].hear(files[turn.clip])
        if heard.error:
            series.refused[turn.side].append(f"{clips[turn.clip].name}: {heard.error}")
        else:
            series.texts[turn.side][turn.clip] = heard.text
        pending[turn.side] = heard
        if len(pending) == len(sides):
            if turn.round >= 0 and not any(each.error for each in pending.values()):
                series.pairs[turn.clip].append((pending["A"].seconds, pending["B"].seconds))
            pending = {}
        on_turn()
    return series


def _memory(a: Contender, b: Contender) -> dict[str, str]:
    """What the sides say, where they are seats, and what NVML sees on this machine's card."""
    from seat.gpu.device import card as read_card

    told = {
        f"{side}: {each.name}": _footprint(health) for side, each in (("A", a), ("B", b)) if (health := each.health())
    }
    if (card := read_card("auto")) is None:
        return told
    for tenant in card.tenants:
        takes = "unknown" if tenant.nbytes is None else f"{tenant.nbytes // MIB} MiB by NVML"
        told[f"process {tenant.pid} ({tenant.name}) on {card.name}"] = takes
    return told


def _footprint(health: dict[str, Any]) -> str:
    memory = health["memory"]
    return f"{memory['rest'] // MIB} MiB at rest, {memory['peak'] // MIB} MiB at most, on {health['model']['device']}"
