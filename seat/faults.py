"""Tell what a fault means for the device. Knows names and sentences of torch's, CUDA's and NeMo's errors; no torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

SHORTAGES: Final = re.compile(
    "out of memory|ALLOC_FAILED|can't allocate memory"
    "|CUBLAS_STATUS_NOT_INITIALIZED"  # from cublasCreate, which allocates
    "|CUFFT_INTERNAL_ERROR"  # pytorch#119420
)
"""What errors of other kinds than `OutOfMemoryError` say where an allocation failed."""

BREAKS: Final = re.compile("(CUDA error|Cuda Error): (?!CU[A-Z]+_STATUS_)|EXECUTION_FAILED|captur")
"""What they say where a context is lost. A library's status alone tells nothing of the context."""


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

    torch raises `OutOfMemoryError` from its allocator, `AcceleratorError` from CUDA's own; CUDA's libraries report a
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
        or (isinstance(link, RuntimeError) and SHORTAGES.search(str(link)) is not None)
    )


def _is_broken(link: BaseException) -> bool:
    return (
        isinstance(link, RuntimeError)
        and not _is_short(link)
        and (type(link).__name__ == "AcceleratorError" or BREAKS.search(str(link)) is not None)
    )
