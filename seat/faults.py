"""Tell what a fault means for the device. Knows names and sentences of torch's, CUDA's and NeMo's errors; no torch."""

from __future__ import annotations

from collections.abc import Iterator


def chain(fault: BaseException) -> Iterator[BaseException]:
    """A fault and what caused it, each once."""
    seen: set[int] = set()
    current: BaseException | None = fault
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def is_shortage(fault: BaseException) -> bool:
    """Whether a fault says that memory was short; the device is well then.

    torch raises `OutOfMemoryError` from its allocator, `AcceleratorError` from CUDA's own; cuBLAS and cuDNN report a
    failed allocation of theirs by name; torch's CPU allocator and Python have errors of their own.
    """
    return not is_fatal(fault) and any(map(_is_short, chain(fault)))


def is_fatal(fault: BaseException) -> bool:
    """Whether a fault means that CUDA computes nothing any more in this process.

    Illegal accesses, device-side asserts and failed launches arrive as `AcceleratorError`, before torch 2.8 as a plain
    `RuntimeError` with 'CUDA error' in it, and from NeMo's graphs with 'Cuda Error'; broken captures say 'capture'.
    """
    return any(map(_is_broken, chain(fault)))


def _is_short(link: BaseException) -> bool:
    return (
        isinstance(link, MemoryError)
        or type(link).__name__ == "OutOfMemoryError"
        or (isinstance(link, RuntimeError) and _names(link, "out of memory", "ALLOC_FAILED", "can't allocate memory"))
    )


def _is_broken(link: BaseException) -> bool:
    return (
        isinstance(link, RuntimeError)
        and not _is_short(link)
        and (
            type(link).__name__ == "AcceleratorError"
            or _names(link, "CUDA error", "Cuda Error", "EXECUTION_FAILED", "captur")
        )
    )


def _names(fault: BaseException, *signs: str) -> bool:
    return any(sign in str(fault) for sign in signs)
