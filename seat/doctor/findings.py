"""Judge what was read from a seat. Knows what is normal and what to do next; reads nothing.

Every judge takes readings and returns a `Finding`. What could not be read is a warning, never a pass.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from seat.demo import BUNDLED, spoken
from seat.errors import LONGEST_ECHO
from seat.meter import MIB
from seat.recognizer import Examination

ALIKE: Final = 0.5
"""Share of the clip's words that another model must hear: synthetic voices are foreign to it, but a model with wrong
weights or a wrong sample rate hears none."""

COLD: Final = 3.0
"""Times that a first request may take a warm one's time, before the warm-up is called into question."""

COLD_FROM_S: Final = 0.5
"""Seconds below which a slow first request bothers nobody."""

FRAMES_PER_S: Final = 12.5
"""Encoder frames per second of audio: 10 ms of hop, subsampled eight times."""

SLOW: Final = 100.0
"""Times that a card's matrix product may be faster than its encoder; a processor in its place is slower still."""

TOO_SMALL_TO_TELL: Final = 50_000_000
"""Weights below which a card is no faster than a processor, so that a rate proves nothing."""

CLEAN_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] \d{3}(?: [ -~]*)?\r\n")
"""Digits and printable bytes: a NUL in a reason has broken gateways."""


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of a doctor's report."""

    check: str
    """What was looked at; stable, for programs."""
    level: Level
    """How bad it is."""
    said: str
    """What was read."""
    next_step: str = ""
    """What to do; empty where nothing is to be done."""


def ok(check: str, said: str) -> Finding:
    """Nothing is to be done."""
    return Finding(check=check, level=Level.OK, said=said)


def warn(check: str, said: str, next_step: str) -> Finding:
    """It works, and may not be what was meant."""
    return Finding(check=check, level=Level.WARN, said=said, next_step=next_step)


def fail(check: str, said: str, next_step: str) -> Finding:
    """It does not do what it promises."""
    return Finding(check=check, level=Level.FAIL, said=said, next_step=next_step)


def environment(deprecated: Mapping[str, str]) -> Finding:
    """Whether the variables are understood; those that are not have stopped us before."""
    if deprecated:
        return warn(
            "environment",
            f"deprecated: {', '.join(deprecated)}",
            f"Write {', '.join(f'{new} for {old}' for old, new in deprecated.items())}.",
        )
    return ok("environment", "every SEAT_ variable is known")


def state(health: Mapping[str, Any]) -> Finding:
    """Whether it would answer a request now."""
    said = f"{health['state']}, version {health['version']}"
    if health["state"] in {"ready", "released"}:
        return ok("state", said)
    if health["state"] == "loading":
        return fail("state", said, "Wait until /health/ready answers 200, and ask again; the log says how far it is.")
    return fail("state", said, "Read the end of its log. Where /health/live answers 503, only a new process helps.")


def device(asked: str | None, model: Mapping[str, Any], examined: Examination | None) -> Finding:
    """Whether the weights lie where the seat says, and where the operator wanted them.

    Args:
        asked: ``SEAT_DEVICE``; None where another process was asked, which has settings of its own.
        model: As in /health.
        examined: What the recognizer found; None where it lives in another process.
    """
    claimed = str(model["device"])
    said = f"{claimed} ({model['device_name']})"
    if examined is not None and set(examined.weights) != {claimed}:
        lie = ", ".join(f"{nbytes // MIB} MiB on {place}" for place, nbytes in examined.weights.items())
        return fail(
            "device", f"the seat says {claimed}, its weights lie elsewhere: {lie}", "Report this; do not use it."
        )
    if asked is not None and asked.startswith("cuda") and not claimed.startswith("cuda"):
        return fail("device", f"{said}, but SEAT_DEVICE={asked}", "Make the card visible to this process.")
    if claimed == "cpu" and asked != "cpu":
        return warn(
            "device", f"{said}: no card computes", "Set SEAT_DEVICE=cuda to refuse that, or =cpu if it is meant."
        )
    return ok("device", said)


def number_type(model: Mapping[str, Any]) -> Finding:
    """Whether a card computes in the type that is fast and small there."""
    if model["dtype"] == "float32" and str(model["device"]).startswith("cuda"):
        return warn(
            "dtype",
            "float32 on a card: twice the memory",
            "Leave SEAT_DTYPE unset, where the card has bfloat16.",
        )
    return ok("dtype", str(model["dtype"]))


def versions(model: Mapping[str, Any], examined: Examination | None) -> Finding:
    """What computes."""
    told = dict(model["versions"]) | ({"driver": examined.driver} if examined and examined.driver else {})
    return ok("versions", ", ".join(f"{name} {version}" for name, version in told.items()) or "none told")


def process(model: Mapping[str, Any], memory: Mapping[str, Any], examined: Examination | None) -> Finding:
    """Whether the driver counts this process on the card."""
    rest = f"{memory['rest'] // MIB} MiB at rest"
    if not str(model["device"]).startswith("cuda"):
        return ok("process", f"{rest}, resident: no card is in use")
    if examined is not None and examined.process_nbytes is not None:
        return ok("process", f"NVML counts {examined.process_nbytes // MIB} MiB for this process; {rest}")
    if memory["outside"]["source"] == "nvml":
        return ok("process", f"the seat finds its process with NVML; {rest}")
    return warn(
        "process",
        f"NVML shows no process of ours ({memory['outside']['source']}); {rest}",
        "In a container, share the host's process numbers (pid: host) to have it counted; the cap holds without.",
    )


def room(memory: Mapping[str, Any], free: int | None) -> Finding:
    """Whether the cap leaves room to work in, and the device room for the cap.

    Args:
        memory: As in /health, in bytes.
        free: Bytes of the card, or of the machine, that nobody takes; None where nothing tells.
    """
    cap, rest, peak = memory["cap"], memory["rest"], memory["peak"]
    used = f"{rest // MIB} MiB at rest, {peak // MIB} MiB at most"
    if cap is None:
        return (
            ok("room", f"{used}, no cap")
            if memory["outside"]["source"] == "none"
            else warn("room", f"{used}, no cap: neighbours cannot count on anything", "Set SEAT_MEM_CAP_MIB.")
        )
    said = f"{used}, cap {cap // MIB} MiB"
    if peak > cap:
        return fail("room", f"{said}: passed", "Report this. Raise SEAT_MEM_CAP_MIB meanwhile.")
    if free is not None and free < cap - rest:
        return fail(
            "room",
            f"{said}, but only {free // MIB} MiB are free for the {(cap - rest) // MIB} MiB that are promised",
            "Give the neighbours less ('seat room' says how much), or lower SEAT_MEM_CAP_MIB.",
        )
    if memory["refusals"]:
        return warn("room", f"{said}; {memory['refusals']} batches refused so far", "Raise SEAT_MEM_CAP_MIB.")
    return ok("room", said + ("" if free is None else f", {free // MIB} MiB free beside it"))


def words(model_id: str, said: str, heard: str) -> Finding:
    """Positive control: whether a clip is heard of which it is known what is said."""
    if heard == said or (model_id != BUNDLED and _overlap(said, heard) >= ALIKE):
        return ok("words", f"'{heard}'")
    return fail(
        "words",
        f"heard '{heard}' where the clip says '{said}'",
        "Do not use this model: check SEAT_MODEL, and its digest against SEAT_MODEL_SHA256.",
    )


def silence(heard: str) -> Finding:
    """Null control: whether nothing is heard where nothing is said."""
    if not heard:
        return ok("silence", "nothing is heard in silence")
    return fail("silence", f"heard '{heard}' in silence", "Do not use this model for audio with pauses.")


def clock(first_s: float, warm_s: float) -> Finding:
    """Whether the warm-up has paid for what is slow the first time."""
    said = f"first request {first_s * 1e3:.0f} ms, warm {warm_s * 1e3:.0f} ms"
    if first_s > max(COLD * warm_s, COLD_FROM_S):
        return warn("clock", said, "Add lengths to SEAT_WARMUP_SECONDS, unless the machine was busy just then.")
    return ok("clock", said)


def rate(model: Mapping[str, Any], s_per_audio_s: float, matrix_flop_per_s: float, beside: str) -> Finding:
    """Whether it computes as fast as the device it names, told by the time that each further second of audio takes.

    An encoder needs two operations per weight and frame, at the least. What a card does no faster than a processor
    multiplies matrices, a processor did.

    Args:
        model: As in /health.
        s_per_audio_s: Seconds for each further second of audio.
        matrix_flop_per_s: Rate of a matrix product.
        beside: Where that product ran: 'cpu' or 'cuda:N'.
    """
    flop_per_s = 2 * model["parameters"] * FRAMES_PER_S / max(s_per_audio_s, 1e-9)
    said = (
        f"{1 / max(s_per_audio_s, 1e-9):.0f} times real time: {flop_per_s / 1e9:.3g} GFLOP/s, "
        f"a matrix product on {beside} has {matrix_flop_per_s / 1e9:.3g}"
    )
    if not str(model["device"]).startswith("cuda"):
        return ok("rate", said)
    if model["parameters"] < TOO_SMALL_TO_TELL:
        return ok("rate", f"{said}; the model is too small to tell a card by")
    if beside == "cpu" and flop_per_s <= matrix_flop_per_s:
        return fail("rate", said, "That is a processor's speed: see whether 'nvidia-smi' shows it at work.")
    if beside != "cpu" and matrix_flop_per_s / flop_per_s > SLOW:
        return fail("rate", said, "The card multiplies far faster than this: see what else the machine is busy with.")
    return ok("rate", said)


def status_lines(seen: Mapping[str, bytes]) -> Finding:
    """Whether the first line of answers holds printable bytes only.

    Args:
        seen: The beginning of raw answers by what was asked.
    """
    dirty = {asked: line for asked, line in seen.items() if not CLEAN_STATUS_LINE.match(line)}
    if not dirty:
        return ok("status_line", f"clean for {', '.join(seen)}")
    asked, line = next(iter(dirty.items()))
    return fail(
        "status_line",
        f"the answer to {asked} begins with {line[:LONGEST_ECHO]!r}",
        "Gateways fail on this. Ask the seat itself, without what stands before it, to see who writes it.",
    )


def worst(findings: Iterable[Finding]) -> Level:
    """The level of the worst finding."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.FAIL, Level.WARN) if level in levels), Level.OK)


def _overlap(said: str, heard: str) -> float:
    """Share of the words of one that stand in the other."""
    known, found = set(spoken(said)), set(spoken(heard))
    return len(known & found) / len(known)
