"""Quantities relative to a reference, such as a study's. None wherever a part of them is not known."""

from __future__ import annotations

from bench.frontier.types import Frontier, MemoryReference, Trial


def reference_trial(frontier: Frontier) -> Trial | None:
    return next((trial for trial in frontier.trials if trial.placement == frontier.reference), None)


def memory_reference(frontier: Frontier) -> MemoryReference | None:
    """What peaks are relative to: the reference, or where `none` does not fit, its forecast."""
    reference = reference_trial(frontier)
    if frontier.plain_forecast is not None or reference is None:
        return frontier.plain_forecast
    if reference.peak_allocated_bytes is None or reference.persistent_bytes is None:
        return None
    return MemoryReference(
        peak_allocated_bytes=reference.peak_allocated_bytes, persistent_bytes=reference.persistent_bytes
    )


def persistent_floor(frontier: Frontier) -> int | None:
    """Bytes allocated between steps, which no placement can move: the reference's, else the least of any trial."""
    reference = reference_trial(frontier)
    if reference is not None and reference.persistent_bytes is not None:
        return reference.persistent_bytes
    return min((t.persistent_bytes for t in frontier.trials if t.persistent_bytes is not None), default=None)


def peak_share(trial: Trial, reference: MemoryReference | None) -> float | None:
    """Peak over the reference's peak."""
    if reference is None or trial.peak_allocated_bytes is None or not reference.peak_allocated_bytes:
        return None
    return trial.peak_allocated_bytes / reference.peak_allocated_bytes


def saving_share(peak_bytes: int | None, reference: MemoryReference | None) -> float | None:
    """Bytes saved at the peak as a share of what could move: the reference's peak above its persistent state."""
    if reference is None or peak_bytes is None:
        return None
    movable = reference.peak_allocated_bytes - reference.persistent_bytes
    return (reference.peak_allocated_bytes - peak_bytes) / movable if movable > 0 else None


def replay_share(replay_flops: int | None, step_flops: int | None) -> float | None:
    """Replayed FLOPs as a share of those of the reference's step."""
    return None if replay_flops is None or not step_flops else replay_flops / step_flops
