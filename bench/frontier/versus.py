"""Plans against peers: at each peer's peak the fastest of ours that takes no more memory, in the same rounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.frontier.trials import OK
from bench.frontier.types import Interval, Trial
from bench.records import Records, TimeSample, kept_samples
from bench.records.plan import Plan, Plans
from bench.spec import StudySpec
from bench.stats import estimate_paired, judge, paired_ratios
from bench.stats.verdict import FASTER, SAME

NO_PLAN = "no plan"
"""Verdict where none of ours stays within the peer's peak."""


@dataclass(frozen=True, kw_only=True)
class Duel:
    """One placement of a peer, and ours at its peak."""

    peers: tuple[str, ...]
    """Labels; several may agree on one placement."""
    is_installable: bool
    """Whether one of them can be installed; else all are re-created."""
    theirs: str
    """Placement measured for it; its twin with @restore where it was invalid without."""
    their_peak_bytes: int
    their_time_ratio: float
    """To the study's reference."""
    ours: str | None = None
    our_peak_bytes: int | None = None
    ratio: float | None = None
    """Our step time over theirs, in the rounds that measured both."""
    interval: Interval | None = None
    """At 95 %."""
    verdict: str = NO_PLAN
    """`faster`, `same`, `slower` or `unclear`, by docs/measurement.md."""
    reason: str = ""

    @property
    def is_met(self) -> bool:
        """Ours is on or below theirs."""
        return self.verdict in (FASTER, SAME)


@dataclass(frozen=True, kw_only=True)
class Versus:
    duels: tuple[Duel, ...]
    """By the peer's peak, the lowest first."""
    unmeasured: tuple[tuple[str, str], ...]
    """(peer's label, why its placement has no time)."""

    @property
    def misses(self) -> tuple[Duel, ...]:
        return tuple(duel for duel in self.duels if not duel.is_met)


def versus(study: StudySpec, records: Records, trials: Sequence[Trial], plans: Plans) -> Versus:
    """Every measured placement of a peer against the fastest measured plan (or `none`) within its peak. Plans of a
    second round are left out: they are measured beside the reference alone, in no round with a peer's placement."""
    planned = [row for row in plans.rows if row.round == 1]
    by_text = {trial.placement: trial for trial in trials}
    twins = {trial.twin_of: trial for trial in trials if trial.twin_of is not None}

    def measured(row: Plan) -> Trial | None:
        for trial in (by_text.get(row.placement), twins.get(row.placement)):
            if trial is not None and trial.outcome == OK:
                return trial
        return None

    ours = {t.placement: t for row in planned if row.peer is None and (t := measured(row)) is not None}
    if (plain := by_text.get("none")) is not None and plain.outcome == OK:
        ours[plain.placement] = plain
    peers: dict[str, list[Plan]] = {}
    unmeasured: list[tuple[str, str]] = []
    for row in planned:
        if row.peer is None:
            continue
        trial = measured(row)
        if trial is None:
            there = by_text.get(row.placement)
            unmeasured.append((row.label, "not in the study" if there is None else f"{there.outcome}: {there.reason}"))
        else:
            peers.setdefault(trial.placement, []).append(row)
    samples = kept_samples(records)
    target = study.controls.protocol.target_half_width
    duels = [_duel(by_text[text], rows, list(ours.values()), samples, target) for text, rows in peers.items()]
    return Versus(duels=tuple(sorted(duels, key=lambda duel: duel.their_peak_bytes)), unmeasured=tuple(unmeasured))


def _duel(
    theirs: Trial, rows: Sequence[Plan], ours: Sequence[Trial], samples: Sequence[TimeSample], target: float
) -> Duel:
    peak = theirs.peak_allocated_bytes or 0
    duel = Duel(
        peers=tuple(dict.fromkeys(row.label for row in rows)),
        is_installable=any(row.is_installable for row in rows),
        theirs=theirs.placement,
        their_peak_bytes=peak,
        their_time_ratio=theirs.time_ratio or math.nan,
    )
    within = [trial for trial in ours if trial.peak_allocated_bytes is not None and trial.peak_allocated_bytes <= peak]
    if not within:
        return duel
    best = min(within, key=lambda trial: trial.time_ratio or math.inf)
    ratio, interval, verdict, reason = 1.0, None, SAME, "one and the same placement"
    if best.placement != theirs.placement:
        pair = [sample for sample in samples if sample.placement in (best.placement, theirs.placement)]
        estimate = estimate_paired(paired_ratios(pair, theirs.placement).get(best.placement, ()))
        judged = judge(estimate, target)
        verdict, reason = judged.word, judged.reason
        ratio = estimate.ratio if estimate is not None else math.nan
        if estimate is not None and estimate.interval is not None:
            interval = Interval(low=estimate.interval[0], high=estimate.interval[1])
    return dataclasses.replace(
        duel,
        ours=best.placement,
        our_peak_bytes=best.peak_allocated_bytes,
        ratio=ratio,
        interval=interval,
        verdict=verdict,
        reason=reason,
    )


def mean_ratio_at_budgets(result: Versus, counts: Callable[[Duel], bool]) -> float | None:
    """Geometric mean, over the peaks of the peers that count, of our time over the best of theirs within that peak.

    Args:
        counts: which peers' placements are budgets and rivals (`lambda duel: duel.is_installable`).
    """
    rivals = [duel for duel in result.duels if counts(duel)]
    ratios = []
    for budget in rivals:
        if budget.ratio is None:
            return None
        fastest = min(duel.their_time_ratio for duel in rivals if duel.their_peak_bytes <= budget.their_peak_bytes)
        ratios.append(budget.ratio * budget.their_time_ratio / fastest)
    return _geometric(ratios)


def _geometric(ratios: Iterable[float]) -> float | None:
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else None
