"""Choose the device, and prove it by reading. Knows torch devices and number types; no model."""

from __future__ import annotations

import platform
from importlib.metadata import version

import torch

from seat.errors import DeviceUnavailable


def choose(asked: str) -> torch.device:
    """Resolve a device setting by asking the driver, with a computation as proof.

    Args:
        asked: 'auto', 'cpu', 'cuda' or 'cuda:N'.

    Returns:
        The device on which a first computation succeeded.

    Raises:
        DeviceUnavailable: CUDA was asked for by name and does not answer. It never falls back: that gives the right
        text,
            slowly, and hides the fault.
    """
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    device = torch.device("cuda" if asked == "auto" else asked)
    if not torch.backends.cuda.is_built():
        raise DeviceUnavailable(device=asked, reason=f"the installed torch {torch.__version__} is built without CUDA")
    if not torch.cuda.is_available():
        raise DeviceUnavailable(device=asked, reason="CUDA finds no usable card here")
    device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
    if device.index >= torch.cuda.device_count():
        raise DeviceUnavailable(device=asked, reason=f"this process sees only {torch.cuda.device_count()} card(s)")
    try:
        torch.cuda.set_device(device)
        torch.ones(1, device=device).add_(1).item()
    except RuntimeError as fault:
        raise DeviceUnavailable(
            device=asked, reason=f"its first computation failed ({type(fault).__name__})"
        ) from fault
    return device


def encoder_dtype(asked: str, device: torch.device) -> torch.dtype:
    """Resolve a number type setting: 'auto' is bfloat16 on CUDA and float32 on a CPU."""
    if asked == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
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
