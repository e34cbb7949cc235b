"""Which exceptions mean that memory ran out."""

from __future__ import annotations

import errno
import re

import torch

WORDINGS = (
    # "CUDA out of memory. Tried…", "HIP …", "MPS backend …", "C10 …"; torch.OutOfMemoryError's own words.
    r"\b(cuda|hip|xpu|mps backend|c10|npu|hpu) out of memory",
    # "CUDA error: out of memory", "CUDA driver error: …", "Triton Error [CUDA]: …", "Cuda failure 2 'out of memory'".
    r"\b(error|failure|status|exception)\b[^.;]{0,20}\bout of memory",
    # libgomp, and a message that says nothing else.
    r"\bout of memory (while )?(allocating|trying to allocate)",
    r"^(error: )?out of memory\b[.!]?$",
    r"error_?out_?of_?memory\b",  # CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory
    r"error_?memory_?allocation\b",  # cudaErrorMemoryAllocation
    r"resource_exhausted",
    r"\bran out of memory\b",
    # "DefaultCPUAllocator: can't allocate memory: you tried…", errno's "Cannot allocate memory".
    r"\b(can't|cannot|can not|could not|unable to|failed to) (allocate|mmap) (\S+ )?memory\b",
    # "failed to allocate 4096 bytes", "Unable to allocate 256. PiB for an array".
    r"\b(can't|cannot|could not|unable to|failed to) allocate [\d.,]+ ?([kmgtp]i?)?b(ytes)?\b",
    r"\bnot enough memory: you tried to allocate",  # DefaultCPUAllocator on Windows
    r"_alloc_failed\b",  # CUBLAS_STATUS_, CUDNN_STATUS_, CUSOLVER_STATUS_, CUFFT_
    r"_allocation_failed\b",  # cuDNN 9: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
    r"\brocblas_status_memory_error\b",
    r"\bstd::bad_alloc\b",
)
"""As allocators and libraries word it, for text in lower case. Deliberately not `CUBLAS_STATUS_NOT_INITIALIZED`: it
often is want of memory, and as often not."""
_PATTERN = re.compile("|".join(WORDINGS), re.MULTILINE)
LONGEST_CHAIN = 10


def is_out_of_memory(error: BaseException) -> bool:
    """Only errors of allocation; any other, also one that gives advice on memory, is never counted as 'does not fit'.

    An error that another one caused (`raise … from`) is judged with its causes, since wrappers hide allocation errors.
    """
    cause: BaseException | None = error
    for _ in range(LONGEST_CHAIN):
        if cause is None:
            return False
        if _is_allocation_error(cause):
            return True
        cause = cause.__cause__
    return False


def _is_allocation_error(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and _PATTERN.search(str(error).lower()) is not None
