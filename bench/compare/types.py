"""What a comparison amounts to: each study on common axes, and every candidate against the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from bench.frontier.types import Frontier, Interval
from bench.records import Records
from bench.spec import StudySpec

RELATIVE, ABSOLUTE = "relative", "absolute"
SCALES = (RELATIVE, ABSOLUTE)
"""`relative`: time over the study's own reference, peak over that of its own `none`. `absolute`: milliseconds and
bytes."""

ONLY_BASELINE, ONLY_CANDIDATE, NEITHER = "only baseline fits", "only candidate fits", "neither fits"
"""What stands in place of a verdict where a study has no placement within a budget."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A study as it enters a comparison."""

    frontier: Frontier
    study: StudySpec | None = None
    records: Records | None = None
    """None where only the published frontier is there, without its rounds."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A valid placement on one scale."""

    placement: str
    time: float
    interval: Interval | None
    """Of the time, at 95 %."""
    peak: float
    on_frontier: bool


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A study on one scale."""

    points: tuple[Point, ...]
    """From the lowest peak to the highest."""
    hypervolume: float | None
    """Area up to the comparison's reference point; None where nothing was measured, or there is nothing to scale by."""


@dataclass(frozen=True, kw_only=True)
class Share:
    placement: str
    share: float
    """Of the resamples."""


@dataclass(frozen=True, kw_only=True)
class Knee:
    """The knee of a study's frontier and how often another set of rounds would have named it."""

    placement: str | None
    """None where the frontier has no knee."""
    confidence: float | None
    """Share of resamples with this answer, `no knee` included; None without rounds to draw."""
    others: tuple[Share, ...]
    """Other placements that resamples name, the most frequent first."""
    none_share: float | None
    """Share of resamples without a knee."""


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One study of a comparison."""

    label: str
    """`A` for the baseline, then `B`, `C` …"""
    study: str
    key: str
    model: str
    device: str
    reference: str | None
    plain_peak_bytes: int | None
    """Peak of `none`, which shares are of; that of the reference where `none` was not measured and not forecast."""
    plain_is_forecast: bool
    executions: int
    rounds: int
    """Of the placement that has the most."""
    has_rounds: bool
    """False where only the published frontier is known: nothing can be drawn again."""
    drift: float | None
    git_commit: str | None
    knee: Knee
    relative: Plane
    absolute: Plane

    def plane(self, scale: str) -> Plane:
        return self.relative if scale == RELATIVE else self.absolute


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The fastest of the baseline against the fastest of the candidate within some memory."""

    baseline: str | None
    """Placement; None where none of the study's fits."""
    candidate: str | None
    baseline_time: float | None = None
    """In the scale's unit, as `candidate_time`."""
    candidate_time: float | None = None
    ratio: float | None = None
    """The candidate's time over the baseline's."""
    interval: Interval | None = None
    """At 95 %."""
    sure_interval: Interval | None = None
    """At 97 %; verdicts and `fail_if` rest on it."""
    verdict: str
    """`faster`, `slower`, `same` or `unclear`: of the candidate; or that one of them has nothing that fits."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class AtBudget:
    share: float | None
    """Of the peak of `none`; None for any memory."""
    budget: float | None
    """In the scale's unit."""
    contest: Contest


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """An interval of memory in which the same two placements meet."""

    low: float
    high: float | None
    """None for all memory above."""
    contest: Contest


@dataclass(frozen=True, kw_only=True)
class Win:
    """Neighbouring stretches with one verdict."""

    low: float
    high: float | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Against:
    """A candidate against the baseline on one scale."""

    hypervolume_ratio: float | None
    """Above 1 the candidate's frontier dominates more."""
    hypervolume_interval: Interval | None
    """At 95 %, by drawing the rounds of both studies again; None where the rounds of one are not there, and on the
    absolute scale."""
    candidate_epsilon: float | None
    """The least factor by which all of the candidate's points would have to be multiplied to cover the baseline's; at
    most 1 where it covers them as it is."""
    baseline_epsilon: float | None
    """The same with the two exchanged."""
    budgets: tuple[AtBudget, ...]
    stretches: tuple[Stretch, ...]
    wins: tuple[Win, ...]


@dataclass(frozen=True, kw_only=True)
class SharedPeak:
    """A placement that both studies measured."""

    placement: str
    baseline_bytes: int
    candidate_bytes: int


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """A candidate against the baseline."""

    label: str
    same_key: bool
    differences: tuple[str, ...]
    """What differs in the controls, in words: `torch 2.11.0 → 2.14.0`."""
    unlike: tuple[str, ...]
    """Of them, those that make absolute peaks and times those of another job or another device."""
    shared_peaks: tuple[SharedPeak, ...]
    relative: Against
    absolute: Against

    def against(self, scale: str) -> Against:
        return self.relative if scale == RELATIVE else self.absolute


@dataclass(frozen=True, kw_only=True)
class ReferencePoint:
    """Where hypervolumes end, over the reference's time and the peak of `none`: each study's own on the relative scale,
    the baseline's on the absolute one."""

    time_ratio: float
    peak_ratio: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    name: str
    studies: tuple[Entrant, ...]
    """The first is the baseline."""
    pairings: tuple[Pairing, ...]
    """One for each of the others."""
    reference_point: ReferencePoint
    resamples: int
    notes: tuple[str, ...]

    def entrant(self, label: str) -> Entrant:
        return next(entrant for entrant in self.studies if entrant.label == label)
