"""What reads and bounds the memory of this process, wherever that is. Knows bytes; no torch, no /proc.

`seat.gpu.device.CudaMeter` counts what nvidia-smi shows for this process, `seat.resident.ResidentMeter` what is
resident.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

MIB: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """What a process takes of a card beyond torch's allocator: CUDA's context, kernels, libraries' own memory."""

    nbytes: int
    """Bytes."""
    source: Literal["nvml", "unknown: difference", "unknown: assumed", "none"]
    """NVML's figure for this process. Where NVML does not see it, as in a container with process numbers of its own:
    what the card as a whole lost while the process started, or a guess. Nothing where no card is in use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocator:
    """What torch's allocator held at most since the last `Meter.reset_peak`."""

    reserved: int
    """Bytes taken from the driver."""
    allocated: int
    """Bytes of them in tensors."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """What the driver, or the kernel where there is no card, tells everybody; in bytes, None where it does not."""

    process: int | None
    """Taken by this process."""
    taken: int | None
    """Taken by all processes together."""
    total: int | None
    """What there is."""


class Meter(Protocol):
    """Reads, bounds and gives back the memory that counts against the cap; on the GPU thread, but for `reported`."""

    @property
    def outside(self) -> Outside:
        """What `bound` found outside the allocator."""

    def used(self) -> int:
        """Bytes that this process takes now."""

    def peak(self) -> int:
        """Bytes that it took at most since `reset_peak`."""

    def held(self) -> int:
        """Bytes of `used` that are in use, as far as can be told from those that are kept to be used again."""

    def held_peak(self) -> int:
        """As `held`, at most since `reset_peak`."""

    def allocator(self) -> Allocator | None:
        """The allocator's own peaks; None where there is none of torch's."""

    def free(self) -> int | None:
        """Bytes that nobody has taken yet; None where that bounds nothing here."""

    def reported(self) -> Reported:
        """What others are told. May be called on any thread; it can take milliseconds."""

    def reset_peak(self) -> None:
        """Forget earlier peaks."""

    def release(self) -> None:
        """Give what is cached and unused back to the driver or the kernel."""

    def bound(self, cap_nbytes: int | None) -> None:
        """Measure what lies outside the allocator, and hold the allocator to the rest of the cap where that can be."""

    def remeasure(self) -> None:
        """Do so again where the driver tells what this process takes; a difference of the card may be a neighbour's."""
