"""The allocator's peak over one training step, exactly, in a pass of its own: no time is ever taken from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

OnPhase = Callable[[str], None]
END = "end"


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


def measure_memory(run: RunStep, persistent_bytes: Callable[[], int], device: torch.device) -> MemoryReading:
    """Runs two steps and reads the second: the first gives every block that the second frees a place in the record.

    Args:
        run: one training step that calls `on_phase` with the name of each phase as it begins, and with `end`.
        persistent_bytes: counts the state alive between two steps; called once, between them. The CPU's allocator
            only tells changes, so they are added to this. CUDA's allocator knows its own total.

    Raises:
        LeakingError: the allocated bytes did not return to where they began.
    """
    if device.type == "cuda":
        from bench.measure.memory_cuda import measure_on_cuda

        return measure_on_cuda(run, device)
    from bench.measure.memory_cpu import measure_on_cpu

    return measure_on_cpu(run, persistent_bytes)


def check_returned(start_bytes: int, end_bytes: int) -> None:
    if start_bytes != end_bytes:
        change = end_bytes - start_bytes
        verb = "more" if change > 0 else "fewer"
        raise LeakingError(f"{abs(change)} bytes {verb} are allocated after a step than before it")
