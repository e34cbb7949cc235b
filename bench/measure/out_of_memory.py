"""Which exceptions mean that memory ran out."""

from __future__ import annotations

import torch

MESSAGES = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "failed to allocate",
    "cudaerrormemoryallocation",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "std::bad_alloc",
)
"""Wordings of allocators and libraries, in lower case (deepmd-kit PR 5440 lists several)."""


def is_out_of_memory(error: BaseException) -> bool:
    """Only errors of allocation; any other error is never counted as 'does not fit'."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error).lower() for message in MESSAGES)
