"""Forecasts of a study's placements: `forecast.json` in its directory, made without training."""

from __future__ import annotations

from dataclasses import dataclass

FAKE_STEP, REARRANGED = "fake step", "rearranged"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a step under one placement will take, from steps on tensors without memory."""

    placement: str
    method: str
    """FAKE_STEP: a whole step was run on fake tensors. REARRANGED: worked out from the plain step's log."""
    peak_allocated_bytes: int
    """High-water mark of one step, the persistent state included."""
    persistent_bytes: int
    retained_bytes: int
    """Allocated by the last forward and still there when its backward begins."""
    peak_phase: str
    peak_reserved_bytes: int | None = None
    """Taken from the driver by a caching allocator; None on the CPU."""
    step_flops: int | None
    """None where an op's FLOPs are not known."""
    replay_flops: int | None
    replay_ops: int
    """Ops run again, views left out."""
    replay_moved_bytes: int
    """Read and written by them."""
