"""What is asked of a study, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from bench.frontier import Interval

USE_NONE, USE, LEAST, NOTHING_FITS, PERSISTENT_EXCEEDS, NOTHING_MEASURED = (
    "use none",
    "use",
    "no knee",
    "nothing fits",
    "persistent state exceeds it",
    "nothing measured",
)
"""Kinds of answer. `no knee`: the frontier is too short, or too straight, so that the placement is its lowest peak."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """At most one of the two; neither asks for the knee."""

    budget_bytes: int | None = None
    """Total peak allocated bytes."""
    slowdown: float | None = None
    """Share of step time that may be paid: 0.05 for ×1.05 of the reference."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A valid placement with its figures."""

    placement: str
    time_ratio: float
    """Step time over the reference's."""
    interval: Interval | None
    """Of the ratio, at 95 %."""
    step_time_ms: float | None
    peak_allocated_bytes: int
    audit: str | None
    """Verdict on its replay; None where it was not audited."""
    share: float | None
    """Of resamples of the rounds in which it is the answer; None without rounds enough to draw."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    kind: str
    """USE_NONE, USE, LEAST, NOTHING_FITS, PERSISTENT_EXCEEDS or NOTHING_MEASURED."""
    study: str
    wish: Wish
    reference: str | None
    """What ratios are relative to."""
    chosen: Candidate | None
    """None where nothing answers the wish."""
    runner_up: Candidate | None = None
    """What resamples name most often beside it; where they name nothing else, what is next best."""
    lowest: Candidate | None = None
    """The placement with the lowest peak, where nothing fits."""
    persistent_bytes: int | None = None
    """Parameters, gradients that outlive a step, optimizer state, batches: there whatever is replayed."""
    notes: tuple[str, ...] = ()
