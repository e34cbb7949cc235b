"""What a study amounts to: one trial a placement, and the frontier among the valid ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Trial:
    """All samples of a placement in a study, summed up. What was not measured is None."""

    placement: str
    id: str
    generators: tuple[str, ...]
    outcome: str
    reason: str = ""
    rounds: int = 0
    """Paired samples that the ratio rests on, over all executions."""
    executions: int = 0
    step_time_ms: float | None = None
    """Median of the timed steps."""
    time_ratio: float | None = None
    """Geometric mean of step time over the reference's in the same round and process; 1.0 for the reference."""
    time_ratio_interval: Interval | None = None
    peak_allocated_bytes: int | None = None
    persistent_bytes: int | None = None
    retained_bytes: int | None = None
    peak_requested_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_phase: str | None = None
    step_flops: int | None = None
    replay_flops: int | None = None
    replay_ops: int | None = None
    on_frontier: bool = False
    frontier_confidence: float | None = None
    """Share of bootstrap resamples of the rounds in which the placement is on the frontier."""


@dataclass(frozen=True, kw_only=True)
class Hypervolume:
    """Area dominated by the frontier up to the reference point; both axes relative to the study's reference."""

    value: float
    time_ratio_bound: float
    peak_ratio_bound: float


@dataclass(frozen=True, kw_only=True)
class Frontier:
    study: str
    """Directory name of the study."""
    key: str
    model: str
    device: str
    reference: str | None
    """Placement text that ratios are relative to; None when nothing was measured."""
    trials: tuple[Trial, ...]
    """Every placement of the study, in its order."""
    frontier: tuple[str, ...]
    """Placement texts on the frontier, from highest peak to lowest."""
    knee: str | None
    hypervolume: Hypervolume | None
    capacity_bytes: int | None
    """Memory of the device; None where it is unknown."""
    notes: tuple[str, ...]
    """Sentences a reader must know: a time cap that was hit, a reference that is not `none`, drift."""
    controls: Mapping[str, object]
    """Flat view of the controls, dotted option → value."""
