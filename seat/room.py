"""Do the arithmetic of a shared card for its neighbours. Knows bytes; reads nothing.

A vLLM neighbour refuses to boot unless ``free >= gpu_memory_utilization * total``, both of the whole card as CUDA
counts it, read once the neighbour's own context is there (vLLM's `request_memory`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from seat.meter import MIB

NEIGHBOUR_CONTEXT_NBYTES: Final = 600 * MIB
"""What a neighbour's own context takes before it looks: the upper end of what contexts and kernels take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tenant:
    """One process on a card."""

    pid: int
    """Its number where NVML counts: in the host's name space."""
    name: str
    """Its program, without folders; 'unknown' where NVML does not tell."""
    nbytes: int | None
    """Bytes of the card that it takes; None where NVML does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A card as read; all in bytes."""

    name: str
    """The card's own name."""
    cuda_total: int
    """What CUDA can hand out: the denominator of torch's and vLLM's fractions."""
    smi_total: int | None
    """What nvidia-smi shows: larger by what the driver keeps for itself; None without NVML."""
    free: int | None
    """What nobody takes now; None without NVML."""
    tenants: tuple[Tenant, ...]
    """Who takes it, the seat included; empty where NVML sees no processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """A running seat's own figures, in bytes, as its /health tells them."""

    cap: int | None
    """What it promises not to pass; None where it has no limit."""
    rest: int
    """What it takes between batches."""
    peak: int
    """What it has taken at most."""
    on_card: bool
    """Whether that is memory of the card; else it is resident."""

    @classmethod
    def of_health(cls, memory: Mapping[str, Any]) -> Seat:
        """Read the 'memory' part of a seat's /health."""
        return cls(
            cap=memory["cap"],
            rest=memory["rest"],
            peak=memory["peak"],
            on_card=memory["outside"]["source"] != "none",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What is left for a neighbour. Fractions are for ``--gpu-memory-utilization``, rounded down to hundredths."""

    others: int
    """Bytes that processes other than the seat take."""
    before: float
    """The highest that boots while the seat is not running."""
    after: float
    """The highest that boots beside the seat at rest."""
    always: float
    """The highest that boots whatever the seat does, and leaves it its cap whichever of the two starts first."""


def room(card: Card, seat: Seat | None, cap: int | None) -> Room | None:
    """Work out a neighbour's room.

    Args:
        card: The card as it is now.
        seat: The seat that runs on it now; None where none does.
        cap: Bytes that the seat may take; None for no limit, and then nothing is left for certain.

    Returns:
        The room; None where NVML does not tell what is free.
    """
    if card.free is None:
        return None
    rest = seat.rest if seat and seat.on_card else None
    others = max(0, card.cuda_total - card.free - (rest or 0))
    promised = card.cuda_total if cap is None else cap
    return Room(
        others=others,
        before=_utilization(card.cuda_total, others),
        after=_utilization(card.cuda_total, others + (promised if rest is None else rest)),
        always=_utilization(card.cuda_total, others + promised),
    )


def _utilization(total: int, taken: int) -> float:
    free = total - taken - NEIGHBOUR_CONTEXT_NBYTES
    return max(0, math.floor(100 * free / total)) / 100


def as_json(card: Card | None, seat: Seat | None, cap: int | None) -> dict[str, Any]:
    """The arithmetic for programs, all in bytes."""
    left = room(card, seat, cap) if card else None
    return {
        "card": asdict(card) if card else None,
        "seat": asdict(seat) if seat else None,
        "cap": cap,
        "room": asdict(left) if left else None,
    }


def told(card: Card | None, seat: Seat | None, cap: int | None) -> str:
    """The arithmetic in a table, for people."""
    lines = ["There is no NVIDIA card that this process can use."] if card is None else _card_lines(card)
    if seat is None:
        lines.append("No seat answers, so its own figures are missing: start one, or name its --url.")
    else:
        lines += [_line("seat at rest", seat.rest), _line("seat at most", seat.peak)]
    lines.append("seat's cap                      none" if cap is None else _line("seat's cap", cap))
    if card is not None:
        left = room(card, seat, cap)
        lines += ["NVML does not tell what is free."] if left is None else _room_lines(left)
    return "\n".join(lines) + "\n"


def _card_lines(card: Card) -> list[str]:
    tenants = [f"  {tenant.pid:>8}  {tenant.name:<16.16}{_mib(tenant.nbytes):>12}" for tenant in card.tenants]
    return [
        card.name,
        _line("total, CUDA", card.cuda_total),
        _line("total, nvidia-smi", card.smi_total),
        _line("free", card.free),
        *(tenants or ["  no process is visible from here"]),
    ]


def _room_lines(left: Room) -> list[str]:
    return [
        _line("others", left.others),
        "highest --gpu-memory-utilization for a vLLM neighbour:",
        f"  before the seat starts        {left.before:.2f}",
        f"  beside the seat at rest       {left.after:.2f}",
        f"  beside the seat at its cap    {left.always:.2f}",
    ]


def _line(what: str, nbytes: int | None) -> str:
    return f"{what:<22}{_mib(nbytes):>14}"


def _mib(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else f"{nbytes // MIB:,} MiB"
