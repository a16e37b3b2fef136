"""Read and trim this process's resident memory. Knows Linux's /proc and the C library; no model, no torch."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path
from typing import Final

from seat.meter import Allocator, Outside, Reported

_STATUS: Final = Path("/proc/self/status")
_MACHINE: Final = Path("/proc/meminfo")
_MARKS: Final = Path("/proc/self/clear_refs")
_RESET_HIGH_WATER: Final = "5"
"""What resets ``VmHWM`` where it is written to ``clear_refs``; Linux 4.0 and later, proc(5)."""


def reading(name: str, of: Path = _STATUS) -> int:
    """A figure of the kernel's in bytes: of /proc/self/status, 'VmRSS' is resident now, 'VmHWM' its high-water mark."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", of.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def available() -> int | None:
    """Bytes that the kernel could give to processes now; None where it does not tell."""
    return (reading("MemAvailable", _MACHINE) or None) if _MACHINE.exists() else None


class ResidentMeter:
    """A `seat.meter.Meter` of what is resident. It bounds nothing: the governor predicts, and reads between batches."""

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
        self.outside = Outside(nbytes=0, source="none")

    def used(self) -> int:
        """Resident bytes."""
        return reading("VmRSS")

    def peak(self) -> int:
        """The high-water mark, which other threads raise too."""
        return reading("VmHWM")

    def held(self) -> int:
        """Resident bytes: what the C library keeps is not told from what is in use."""
        return self.used()

    def held_peak(self) -> int:
        """The high-water mark."""
        return self.peak()

    def allocator(self) -> Allocator | None:
        """None: the C library keeps no peaks."""
        return None

    def free(self) -> int | None:
        """None: a process that asks for too much is killed, and not told."""
        return None

    def reported(self) -> Reported:
        """What is resident, and what the machine has in use; a container's own limit is not looked at."""
        total = reading("MemTotal", _MACHINE)
        return Reported(process=self.used(), taken=total - reading("MemAvailable", _MACHINE), total=total)

    def reset_peak(self) -> None:
        """Reset the kernel's mark; in a sandbox without that file it stays at its highest since the start."""
        with contextlib.suppress(OSError):
            _MARKS.write_text(_RESET_HIGH_WATER)

    def release(self) -> None:
        """Give free pages of all arenas back to the kernel."""
        if self._trim is not None:
            self._trim(0)

    def bound(self, cap_nbytes: int | None) -> None:
        """Nothing can be bounded: RLIMIT_AS counts what is mapped, and torch maps ten times what it touches."""

    def remeasure(self) -> None:
        """Nothing lies outside."""
