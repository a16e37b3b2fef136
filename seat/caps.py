"""Choose the cap, recommend one, and refuse to start where it leaves no room. Knows bytes and seconds; runs nothing."""

from __future__ import annotations

import math
from typing import Final

from seat.errors import CannotStart, CapTooSmall, CardFull
from seat.meter import MIB, Meter

CUDA_CAP_MIB: Final = 3840
"""The cap on a card where none is set, in MiB: that of the services this one replaces."""

ASSUMED_NBYTES_PER_S: Final = 8 * MIB
"""What a second of padded audio takes before one was measured: stock NeMo's 0.6B encoder counts 6.25 MiB of tensors in
float32 (3.13 in bfloat16), and mel spectrogram and decoder come on top."""

ASSUMED_WINDOW_S: Final = 60.0
"""Seconds of padded audio in a window where the weights already do not fit and nothing was measured."""

HEADROOM: Final = 1.02
"""What a measured need is multiplied with before it is recommended: readings differ by some MiB between starts."""

GROWTH_NBYTES: Final = 64 * MIB
"""What is added to it: by so much a process grows in its first hours, while uploads and batches of all shapes pass."""

CAP_STEP_MIB: Final = 64
"""Caps are recommended in multiples of this."""


def cap_nbytes(asked_mib: int | None, device: str) -> int | None:
    """The cap in bytes, from the setting and where the weights lie; None for no limit."""
    mib = (CUDA_CAP_MIB if device.startswith("cuda") else 0) if asked_mib is None else asked_mib
    return mib * MIB or None


def recommended_mib(need: int) -> int:
    """The cap that holds a measured need of so many bytes, in MiB."""
    return math.ceil((need * HEADROOM + GROWTH_NBYTES) / MIB / CAP_STEP_MIB) * CAP_STEP_MIB


def no_room(*, cap: int | None, used: int, free: int | None, need: float, what: str) -> CannotStart:
    """The refusal where memory ran out before the seat was ready, by the bound that was nearer.

    Args:
        cap: Bytes that the process may take; None for no limit.
        used: Bytes that it takes now.
        free: Bytes of the device that nobody has; None where that is not known.
        need: Bytes that the process would take, as measured or estimated.
        what: What needs them, for the sentence.
    """
    if free is not None and (cap is None or used + free < cap):
        return CardFull(free_mib=free // MIB, need_mib=math.ceil((need - used) / MIB), what=what)
    return CapTooSmall(cap_mib=(cap or 0) // MIB, need_mib=recommended_mib(round(need)), what=what)


def no_room_for_weights(meter: Meter, cap: int | None, weights: int) -> CannotStart:
    """The refusal where not even the weights fit, with an estimate of what would be enough; all in bytes."""
    need = meter.outside.nbytes + weights + ASSUMED_NBYTES_PER_S * ASSUMED_WINDOW_S
    return no_room(cap=cap, used=meter.used(), free=meter.free(), need=need, what="the model's weights")
