"""What a fault means for the device, told by names: torch is not needed to know them."""

import pytest

from seat.faults import is_fatal, is_shortage
from tests.fakes import OutOfMemoryError


class AcceleratorError(RuntimeError):
    """Named as torch's own."""


def _caused(fault: BaseException, by: BaseException) -> BaseException:
    fault.__cause__ = by
    return fault


@pytest.mark.parametrize(
    "fault",
    [
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("cuFFT error: CUFFT_INTERNAL_ERROR"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
        _caused(ValueError("in the encoder"), OutOfMemoryError()),
    ],
)
def test_memory_that_was_short_harms_nobody_else(fault: BaseException) -> None:
    """The batch fails, the device goes on."""
    assert (is_shortage(fault), is_fatal(fault)) == (True, False)


@pytest.mark.parametrize(
    "fault",
    [
        AcceleratorError("CUDA error: an illegal memory access was encountered"),
        AcceleratorError("whatever the next version says"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: unspecified launch failure"),
        RuntimeError("CUDA error: operation failed due to a previous error during capture"),
        RuntimeError("Offset increment outside graph capture encountered unexpectedly."),
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(...)`"),
        RuntimeError("Cuda Error: 700"),
        _caused(ValueError("in the decoder"), AcceleratorError()),
        _caused(OutOfMemoryError(), AcceleratorError("CUDA error: an illegal memory access was encountered")),
    ],
)
def test_a_broken_context_is_the_end(fault: BaseException) -> None:
    """Also where it is only the cause of what arrived, and where memory seemed short after it."""
    assert (is_shortage(fault), is_fatal(fault)) == (False, True)


@pytest.mark.parametrize(
    "fault",
    [
        ValueError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("shape mismatch"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul(...)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_BAD_PARAM"),
        IndexError(),
    ],
)
def test_a_fault_of_the_model_is_neither(fault: BaseException) -> None:
    """It belongs to its audio."""
    assert (is_shortage(fault), is_fatal(fault)) == (False, False)


def test_a_chain_that_turns_back_on_itself_ends() -> None:
    """Two faults can name each other."""
    one, other = ValueError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert not is_fatal(one)
