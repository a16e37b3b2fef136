"""Choose the device, prove it by reading, bound its memory. Knows torch devices, NVML and number types; no model."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, Final

import pynvml
import torch

from seat.errors import DeviceUnavailable
from seat.meter import MIB, Allocator, Meter, Outside, Reported
from seat.recognizer import MATRIX_ROWS
from seat.resident import ResidentMeter
from seat.room import Card, Tenant

ASSUMED_OUTSIDE_NBYTES: Final = 600 * MIB
"""What is taken to lie outside the allocator where nothing tells: the upper end of what contexts, kernels and libraries
take."""

MOST_OUTSIDE_NBYTES: Final = 2 * ASSUMED_OUTSIDE_NBYTES
"""A larger difference of the card is a neighbour that started at the same time."""

MOST_FFT_PLANS: Final = 16
"""Plans that cuFFT keeps. Every width of a batch needs one, their memory lies outside torch's allocator, and 4096 are
kept otherwise: 2.2 GB in pytorch#94893."""

MATRIX_TRIES: Final = 3
"""Products that are timed: the first pays for what is loaded at first use."""

REJECT_FIRST: Final = "per_process_memory_fraction:{fraction:.6f},throw_on_cudamalloc_oom:True"
"""Settings of torch's allocator, from 2.12 on: reject what would pass the fraction before anything is asked of the
driver, and without first giving cached blocks back (pytorch#179473)."""


def choose(asked: str) -> tuple[torch.device, Meter]:
    """Resolve a device setting by asking the driver, with a computation as proof.

    Args:
        asked: 'auto', 'cpu', 'cuda' or 'cuda:N'.

    Returns:
        The device on which a first computation succeeded, and what counts this process's memory there.

    Raises:
        DeviceUnavailable: CUDA was asked for by name and does not answer. It never falls back: that gives the right
            text, slowly, and hides the fault.
    """
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu"), ResidentMeter()
    device = torch.device("cuda" if asked == "auto" else asked)
    if not torch.backends.cuda.is_built():
        raise DeviceUnavailable(device=asked, reason=f"the installed torch {torch.__version__} is built without CUDA")
    if not torch.cuda.is_available():
        raise DeviceUnavailable(device=asked, reason="CUDA finds no usable card here")
    device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
    if device.index >= torch.cuda.device_count():
        raise DeviceUnavailable(device=asked, reason=f"this process sees only {torch.cuda.device_count()} card(s)")
    meter = CudaMeter(device)  # before the context is there, so that the difference shows it
    try:
        torch.cuda.set_device(device)
        torch.ones(1, device=device).add_(1).item()
        torch.backends.cuda.cufft_plan_cache[device.index].max_size = MOST_FFT_PLANS
    except RuntimeError as fault:
        raise DeviceUnavailable(
            device=asked, reason=f"its first computation failed ({type(fault).__name__})"
        ) from fault
    return device, meter


def encoder_dtype(asked: str, device: torch.device) -> torch.dtype:
    """Resolve a number type setting: 'auto' is bfloat16 on a card that computes in it, and float32 elsewhere."""
    if asked == "auto":
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if fast else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[asked]


def name_of(device: torch.device) -> str:
    """The card's or processor's own name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of what computes, by name."""
    found = {"torch": torch.__version__, "nemo_toolkit": version("nemo_toolkit")}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def driver() -> str | None:
    """Version of the card's driver; None where NVML does not answer."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    finally:
        pynvml.nvmlShutdown()


def matrix_flop_per_s(device: torch.device) -> float:
    """Floating-point operations per second of a product of two square matrices in float32: the best of a few."""
    left = torch.ones(MATRIX_ROWS, MATRIX_ROWS, device=device)
    took_s = math.inf
    for _ in range(MATRIX_TRIES):
        began_at = time.perf_counter()
        (left @ left).sum().item()  # waits for the card
        took_s = min(took_s, time.perf_counter() - began_at)
    return 2 * MATRIX_ROWS**3 / took_s


class CudaMeter:
    """A `seat.meter.Meter` of what nvidia-smi shows for this process: torch's allocator and what lies outside it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._others = self._taken()
        self._cap: int | None = None
        self.outside = Outside(nbytes=ASSUMED_OUTSIDE_NBYTES, source="unknown: assumed")

    def used(self) -> int:
        """Bytes of the card."""
        return self.outside.nbytes + int(torch.cuda.memory_reserved(self._device))

    def peak(self) -> int:
        """Bytes of the card; the allocator's peak is exact, what lies outside it hardly moves once warm."""
        return self.outside.nbytes + int(torch.cuda.max_memory_reserved(self._device))

    def held(self) -> int:
        """Bytes of the card, cached blocks left out."""
        return self.outside.nbytes + int(torch.cuda.memory_allocated(self._device))

    def held_peak(self) -> int:
        """As `held`, at most."""
        return self.outside.nbytes + int(torch.cuda.max_memory_allocated(self._device))

    def allocator(self) -> Allocator | None:
        """The allocator's peaks."""
        return Allocator(
            reserved=int(torch.cuda.max_memory_reserved(self._device)),
            allocated=int(torch.cuda.max_memory_allocated(self._device)),
        )

    def free(self) -> int | None:
        """Bytes of the card, as the driver tells."""
        return int(torch.cuda.mem_get_info(self._device)[0])

    def reported(self) -> Reported:
        """NVML's figures."""
        with _nvml(self._device) as handle:
            memory = None if handle is None else pynvml.nvmlDeviceGetMemoryInfo(handle)
        return Reported(
            process=used_by_us(self._device),
            taken=None if memory is None else int(memory.used),
            total=None if memory is None else int(memory.total),
        )

    def reset_peak(self) -> None:
        """Forget the allocator's peaks."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def release(self) -> None:
        """Give the allocator's unused blocks back to the driver."""
        torch.cuda.empty_cache()

    def bound(self, cap_nbytes: int | None) -> None:
        """Measure what lies outside the allocator, and give the allocator the rest of the cap.

        The fraction's denominator is CUDA's own total, smaller than nvidia-smi's.
        """
        torch.cuda.synchronize(self._device)
        reserved = int(torch.cuda.memory_reserved(self._device))
        self.outside = outside(used_by_us(self._device), self._taken(), self._others, reserved)
        self._hold(cap_nbytes)

    def remeasure(self) -> None:
        """Ask NVML again, where it was what told."""
        reserved = int(torch.cuda.memory_reserved(self._device))
        ours = used_by_us(self._device) if self.outside.source == "nvml" else None
        if ours is not None and ours >= reserved:
            self.outside = Outside(nbytes=ours - reserved, source="nvml")
            self._hold(self._cap)

    def _hold(self, cap_nbytes: int | None) -> None:
        """Hold the allocator to what the cap leaves beside what lies outside."""
        self._cap = cap_nbytes
        if cap_nbytes is None:
            return
        total = torch.cuda.get_device_properties(self._device).total_memory
        share = math.floor((cap_nbytes - self.outside.nbytes) / total * 1e6) / 1e6  # as REJECT_FIRST writes it
        fraction = min(1.0, max(0.0, share))
        torch.cuda.set_per_process_memory_fraction(fraction, self._device)
        # torch before 2.12 does not know the option and says so: its allocator then gives cached blocks back and tries
        # again before it raises, within the same fraction.
        with contextlib.suppress(AttributeError, RuntimeError, ValueError):
            torch._C._accelerator_setAllocatorSettings(REJECT_FIRST.format(fraction=fraction))  # noqa: SLF001

    def _taken(self) -> int | None:
        """Bytes of the card that are in use by anybody, as the driver tells; None where NVML does not answer."""
        with _nvml(self._device) as handle:
            return None if handle is None else int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


def outside(ours: int | None, taken: int | None, others: int | None, reserved: int) -> Outside:
    """Choose the best figure for what lies outside the allocator.

    Args:
        ours: NVML's bytes for this process, or None where it does not see us.
        taken: Bytes of the card in use now.
        others: Bytes of the card that were in use before this process used it.
        reserved: The allocator's bytes now.
    """
    if ours is not None and ours >= reserved:  # else another process has our number in the host's name space
        return Outside(nbytes=ours - reserved, source="nvml")
    if taken is not None and others is not None and 0 < taken - others - reserved <= MOST_OUTSIDE_NBYTES:
        return Outside(nbytes=taken - others - reserved, source="unknown: difference")
    return Outside(nbytes=ASSUMED_OUTSIDE_NBYTES, source="unknown: assumed")


def used_by_us(device: torch.device) -> int | None:
    """NVML's bytes for this process; None where it does not see it, as in most containers."""
    with _nvml(device) as handle:
        return next((tenant.nbytes for tenant in _tenants(handle) if tenant.pid == os.getpid()), None)


def _tenants(handle: Any) -> list[Tenant]:  # noqa: ANN401  NVML has no types
    """Who uses a card, as far as NVML sees processes; empty where it does not answer."""
    if handle is None:
        return []
    try:
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        return []
    return [Tenant(pid=entry.pid, name=_name(entry.pid), nbytes=entry.usedGpuMemory) for entry in running]


def _name(pid: int) -> str:
    try:
        name = pynvml.nvmlSystemGetProcessName(pid)
    except pynvml.NVMLError:
        return "unknown"
    return os.path.basename(name.decode() if isinstance(name, bytes) else name)  # noqa: PTH119  not a path of ours


@contextlib.contextmanager
def _nvml(device: torch.device) -> Iterator[Any]:
    """NVML's handle of a card, by its identity: the numbers of CUDA_VISIBLE_DEVICES are not NVML's."""
    identity = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(identity)
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield handle
    finally:
        pynvml.nvmlShutdown()


def card(asked: str) -> Card | None:
    """Read the card that a device setting names, without taking any of it; None where there is none."""
    if asked == "cpu" or not torch.cuda.is_available():
        return None
    device = torch.device("cuda:0" if asked in {"auto", "cuda"} else asked)
    properties = torch.cuda.get_device_properties(device)
    with _nvml(device) as handle:
        memory = None if handle is None else pynvml.nvmlDeviceGetMemoryInfo(handle)
        return Card(
            name=properties.name,
            cuda_total=properties.total_memory,
            smi_total=None if memory is None else int(memory.total),
            free=None if memory is None else int(memory.free),
            tenants=tuple(_tenants(handle)),
        )
