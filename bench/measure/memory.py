"""The allocator's peak over one training step, exactly, in a pass of its own: no time is ever taken from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch

OnPhase = Callable[[str], None]
Persistent = Callable[[], Iterable[torch.Tensor]]
END = "end"
COLLECT = "collect"
"""Mark after the step: what is freed from here on was garbage."""


class LeakingError(RuntimeError):
    """A step left more or less allocated than it began with: says by how many bytes."""


@dataclass(frozen=True, kw_only=True)
class MemoryReading:
    """One step. Units are bytes."""

    persistent_bytes: int
    """Allocated when the step began."""
    peak_bytes: int
    """High-water mark, the persistent part included."""
    peak_phase: str
    retained_bytes: int
    """Allocated by the step's last forward and still there when its backward begins: saved tensors, boundaries."""
    peak_requested_bytes: int | None = None
    peak_reserved_bytes: int | None = None


class RunStep(Protocol):
    def __call__(self, on_phase: OnPhase) -> object: ...


def measure_memory(run: RunStep, persistent: Persistent, device: torch.device) -> MemoryReading:
    """Runs two steps and reads the second: the first gives every block that the second frees a place in the record.

    Args:
        run: one training step that calls `on_phase` with the name of each phase as it begins, and with `end`.
        persistent: the tensors that are known to be alive between two steps; asked for once, between them. The CPU's
            allocator only tells changes, which are added to these. CUDA's allocator knows its own total.

    Raises:
        LeakingError: the allocated bytes did not return to where they began.
    """
    if device.type == "cuda":
        from bench.measure.memory_cuda import measure_on_cuda

        return measure_on_cuda(run, device)
    from bench.measure.memory_cpu import measure_on_cpu

    return measure_on_cpu(run, persistent)


def check_returned(start_bytes: int, end_bytes: int, collected_bytes: int) -> None:
    """
    Args:
        start_bytes: allocated as the step began.
        end_bytes: allocated as it ended.
        collected_bytes: allocated once Python's garbage had been collected after it.

    Raises:
        LeakingError: the step did not end where it began; says whether a collection mends that.
    """
    change = end_bytes - start_bytes
    if change == 0:
        return
    if change < 0:
        raise LeakingError(f"{-change} bytes fewer are allocated after a step than before it")
    cause = (
        "a garbage collection frees them, so the step leaves reference cycles that hold tensors"
        if collected_bytes <= start_bytes
        else "no garbage collection frees them, so something keeps a reference"
    )
    raise LeakingError(f"{change} bytes more are allocated after a step than before it; {cause}")
