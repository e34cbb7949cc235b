"""What a study amounts to: one trial a placement, and the frontier among the valid ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    low: float
    high: float

    def arm(self, value: float) -> float:
        """The longer arm around a value that it belongs to."""
        return max(self.high - value, value - self.low, 0.0)


def relative_width(value: float | None, interval: Interval | None) -> float | None:
    """The longer arm of an interval as a share of the value (0.02 is ± 2 %); None without an interval."""
    return None if value is None or interval is None else interval.arm(value) / value


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
    """Step time over the reference's in the same round, the Hodges–Lehmann centre over rounds; 1.0 for the
    reference."""
    time_ratio_interval: Interval | None = None
    """At 95 %."""
    verdict: str | None = None
    """`faster`, `slower`, `same` or `unclear` against the reference, by the procedure of docs/measurement.md; None for
    the reference itself."""
    verdict_reason: str | None = None
    steadiness: str | None = None
    """`flat`, `warming`, `slowing`, `unsteady` or `unknown` (too few rounds): how the ratio went over the rounds of an
    execution, the worst of all executions; for the reference, how its step time went."""
    spread_within: float | None = None
    """Standard deviation of log ratios from round to round of one execution."""
    spread_between: float | None = None
    """Standard deviation from execution to execution beyond that; None with one execution."""
    peak_allocated_bytes: int | None = None
    persistent_bytes: int | None = None
    retained_bytes: int | None = None
    peak_requested_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_phase: str | None = None
    step_flops: int | None = None
    replay_flops: int | None = None
    replay_ops: int | None = None
    forecast_peak_bytes: int | None = None
    """What the peak was forecast to be, without training; there also where nothing was measured."""
    forecast_method: str | None = None
    """`fake step` or `rearranged`, as in the study's `forecast.json`."""
    forecast_error_share: float | None = None
    """(forecast peak − measured peak) / (measured peak − persistent); None where either is missing."""
    replay_ms: float | None = None
    """Of a planned placement, by how much its step took longer than that of `none`: (time ratio − 1) × the step time of
    `none`, so by pairs of one round. None where ratios are to another placement."""
    expected_peak_bytes: int | None = None
    """What the planner, or for a peer's placement its forecast, expected before it was measured."""
    expected_peak_error_share: float | None = None
    """(expected peak − measured peak) / (measured peak − persistent); None where either is missing."""
    expected_replay_ms: float | None = None
    """By how much its step was expected to take longer than that of `none`, at the speed that the machine had while the
    study was measured: the share of the plain step that was expected, times `none`'s step time. None where no times
    were known: costs that only rank placements are no times."""
    expected_replay_error_share: float | None = None
    """(expected − measured) / measured replay time; None where either is missing, or its step was no slower than that
    of `none`."""
    audit: str | None = None
    """Verdict on its replay: `valid` (to the bit), `valid-within-tolerance`, `invalid`, `flaky` or `unsupported`; None
    where it was not audited, as `none` is not."""
    audit_kinds: tuple[str, ...] = ()
    """Kinds of what the audit found, the cause first."""
    audit_note: str = ""
    """Says so where the audit ran on another batch than the study's."""
    twin_of: str | None = None
    """The placement without @restore that was turned away, and that this one stands for."""
    on_frontier: bool = False
    frontier_confidence: float | None = None
    """Share of bootstrap resamples of the rounds in which the placement is on the frontier."""


@dataclass(frozen=True, kw_only=True)
class MemoryReference:
    """The step whose peak the others' peaks are held against."""

    peak_allocated_bytes: int
    persistent_bytes: int


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
    plain_forecast: MemoryReference | None = None
    """The forecast of `none`, where that ran out of memory: peaks are relative to it, and not to the reference's."""
    trials: tuple[Trial, ...]
    """Every placement of the study, in its order."""
    frontier: tuple[str, ...]
    """Placement texts on the frontier, from highest peak to lowest."""
    knee: str | None
    hypervolume: Hypervolume | None
    drift: float | None
    """Share by which the reference's step time changed its level during an execution, the largest; 0 where it stayed
    within the precision aimed at, None where there were too few rounds to see it. A study with drift is marked."""
    capacity_bytes: int | None
    """Memory of the device; None where it is unknown."""
    notes: tuple[str, ...]
    """Sentences a reader must know: a time cap that was hit, a reference that is not `none`, drift."""
    controls: Mapping[str, object]
    """Flat view of the controls, dotted option → value."""

    def paired_step_time_ms(self, trial: Trial) -> float | None:
        """What tables and plots show as a step time: the reference's, times the paired ratio, and so free of the drift
        that all placements share. Where there is no ratio it is the median of the trial's own steps."""
        reference = next((one for one in self.trials if one.placement == self.reference), None)
        if reference is None or reference.step_time_ms is None or trial.time_ratio is None:
            return trial.step_time_ms
        return reference.step_time_ms * trial.time_ratio
