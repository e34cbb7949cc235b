"""One recorded step explained: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bench.explain.advice import advise
from bench.explain.compare import Comparison, compare
from bench.explain.findings import Advice
from bench.explain.peak import PeakExplanation, explain
from bench.explain.plateau import Plateau, PlateauPoint, find_plateau
from bench.explain.reading import read
from bench.explain.replay_cost import ReplayCost, replay_cost
from bench.explain.residuals import Residuals, region_residuals, unit_residuals
from bench.explain.text import render_comparison, render_explanation, render_replay_cost, render_residuals
from bench.frontier import Trial, load_frontier
from bench.records import PLAIN
from bench.report.candidate_table import render_candidates
from bench.spec import to_mapping
from bench.study.recording import Recorded
from bench.trace.log import StepLog


@dataclass(frozen=True, kw_only=True)
class Explained:
    explanation: PeakExplanation
    advice: tuple[Advice, ...]
    residuals: Residuals
    """Of the placement's regions; of the plain step, of each unit."""
    cost: ReplayCost
    plateau: Plateau | None
    """Of the study that measured this step."""
    comparison: Comparison | None
    candidates: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    def rendered(self, *, residuals: bool) -> RenderableType:
        parts: list[RenderableType] = [render_explanation(self.explanation, self.advice), Text()]
        if self.candidates:
            parts += [render_candidates(self.candidates, self.explanation.peak_bytes), Text()]
        if self.plateau is not None:
            parts += [Text(self.plateau.text), Text()]
        if residuals:
            parts += [render_residuals(self.residuals), Text()]
        if self.cost.regions:
            parts += [render_replay_cost(self.cost), Text()]
        if self.comparison is not None:
            parts += [render_comparison(self.comparison), Text()]
        return Group(*parts, *(Text(f"note: {note}", style="yellow") for note in self.notes))

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "explanation": to_mapping(self.explanation),
            "advice": to_mapping(self.advice),
            "residuals": to_mapping(self.residuals),
            "replay_cost": to_mapping(self.cost),
            "plateau": to_mapping(self.plateau),
            "comparison": to_mapping(self.comparison),
            "candidates": to_mapping(self.candidates),
            "notes": list(self.notes),
        }


def explained(
    placement: str, other: str | None, recorded: Recorded, logs: Mapping[str, StepLog], study: Path | None
) -> Explained:
    """
    Args:
        logs: by placement, those of `placement` and `other` among them.
        study: the directory of the study that measured this step, for what its placements took.
    """
    reading = read(logs[placement], recorded.chains)
    explanation = explain(reading)
    trials = [] if study is None else [trial for trial in load_frontier(study).trials if trial.outcome == "ok"]
    times = _times_ms(trials)
    plain_ms, placed_ms = times.get(PLAIN), times.get(placement)
    has_times = placement != PLAIN and plain_ms is not None and placed_ms is not None
    return Explained(
        explanation=explanation,
        advice=advise(
            reading,
            explanation,
            reserved_bytes=next((t.peak_reserved_bytes for t in trials if t.placement == placement), None),
        ),
        residuals=unit_residuals(reading) if placement == PLAIN else region_residuals(reading),
        cost=replay_cost(reading, plain_ms=plain_ms, placed_ms=placed_ms) if has_times else replay_cost(reading),
        plateau=find_plateau(_points(trials)),
        comparison=_compared(placement, other, recorded, logs),
        candidates=recorded.candidates,
        notes=recorded.notes,
    )


def _compared(placement: str, other: str | None, recorded: Recorded, logs: Mapping[str, StepLog]) -> Comparison | None:
    """From the placement to the other one; without one, from the plain step to the placement."""
    first, second = (placement, other) if other is not None else (PLAIN, placement)
    if first == second or first not in logs:
        return None
    return compare(logs[first], logs[second], recorded.chains)


def _times_ms(trials: Sequence[Trial]) -> dict[str, float]:
    """By placement: the plain step's time, times the paired ratio, which is free of the drift that all share."""
    plain_ms = next((trial.step_time_ms for trial in trials if trial.placement == PLAIN), None)
    if plain_ms is None:
        return {}
    return {trial.placement: plain_ms * trial.time_ratio for trial in trials if trial.time_ratio is not None}


def _points(trials: Sequence[Trial]) -> list[PlateauPoint]:
    return [
        PlateauPoint(placement=trial.placement, peak_bytes=trial.peak_allocated_bytes, replay_flops=trial.replay_flops)
        for trial in trials
        if trial.peak_allocated_bytes is not None and trial.replay_flops is not None
    ]
