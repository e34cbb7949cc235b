import numpy as np
import pytest
import torch

from bench.measure import is_out_of_memory

OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    OSError(12, "Cannot allocate memory"),
    *map(
        RuntimeError,
        (
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity)",
            "HIP out of memory. Tried to allocate 64.00 MiB",
            "MPS backend out of memory (MPS allocated: 9.05 GiB, other allocations: 1.2 GiB)",
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            "CUDA driver error: out of memory",
            "Triton Error [CUDA]: out of memory",
            "NCCL error: unhandled cuda error. Last error:\nCuda failure 2 'out of memory'",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "cudaErrorMemoryAllocation",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
            "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED",
            "cuFFT error: CUFFT_ALLOC_FAILED",
            "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to",
            "[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.",
            "$ Torch: unable to mmap memory: you tried to mmap 4GB.",
            "unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)",
            "failed to allocate 4096 bytes for packed weights",
            "libgomp: Out of memory allocating 4096 bytes",
            "std::bad_alloc",
            "out of memory",
        ),
    ),
]
OTHERS = [
    ValueError("out of memory"),
    OSError(28, "No space left on device"),
    *map(
        RuntimeError,
        (
            "mat1 and mat2 shapes cannot be multiplied",
            "CUDA error: an illegal memory access was encountered",
            "use a smaller window to avoid running out of memory",
            "gradient_checkpointing would keep you from an out of memory situation, but use_cache is on",
            "unsupported memory format option ChannelsLast",
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location",
            "failed to allocate a port for the store",
            "Pin memory thread exited unexpectedly",
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "Storage size calculation overflowed with sizes=[4611686018427387904]",
        ),
    ),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_allocation_errors_in_the_words_of_many_libraries_are_out_of_memory(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize("error", OTHERS, ids=str)
def test_errors_that_merely_mention_memory_are_not(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_the_cpu_allocator_really_words_it_so() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 50)
    assert is_out_of_memory(error.value)


def test_numpy_really_raises_it_so() -> None:
    with pytest.raises(MemoryError) as error:
        np.empty(1 << 50)
    assert is_out_of_memory(error.value)


def test_a_wrapper_does_not_hide_an_allocation_error() -> None:
    def compile_block() -> None:
        try:
            torch.empty(1 << 50)
        except RuntimeError as cause:
            raise KeyError("compiling block 3 failed") from cause

    with pytest.raises(KeyError) as error:
        compile_block()
    assert is_out_of_memory(error.value)
