"""The evidence for each placement of a study, a row each: validity, time, memory, and what was expected of them."""

from __future__ import annotations

from dataclasses import dataclass

from bench.frontier.types import Frontier, Trial
from bench.report.quantities import error_text, memory_unit, ratio_text

UNMEASURED = ""
COLUMNS = (
    "placement",
    "outcome",
    "on frontier",
    "audit",
    "audit found",
    "time ratio",
    "95 % interval",
    "verdict",
    "rounds",
    "peak",
    "forecast",
    "forecast error",
    "planned peak",
    "replay expected",
    "replay measured",
    "reason",
)


@dataclass(frozen=True, kw_only=True)
class EvidenceTable:
    study: str
    columns: tuple[str, ...]
    """Titles, with the unit where there is one."""
    rows: tuple[tuple[str, ...], ...]
    """Texts, a row a placement in the study's order; what was not measured is empty. (placements, columns)"""


def evidence_table(frontier: Frontier) -> EvidenceTable:
    """What is known of each placement; one unit of memory for all of them."""
    unit = memory_unit(trial.peak_allocated_bytes for trial in frontier.trials)
    with_unit = {name: f"{name} ({unit.name})" for name in ("peak", "forecast", "planned peak")}
    with_unit |= {name: f"{name} (ms)" for name in ("replay expected", "replay measured")}

    def memory(num_bytes: int | None) -> str:
        return UNMEASURED if num_bytes is None else unit.text(num_bytes)

    def row(trial: Trial) -> tuple[str, ...]:
        interval = trial.time_ratio_interval
        return (
            trial.placement,
            trial.outcome,
            "yes" if trial.placement in frontier.frontier else "no",
            trial.audit or UNMEASURED,
            "; ".join((*trial.audit_kinds, *([trial.audit_note] if trial.audit_note else []))),
            UNMEASURED
            if trial.time_ratio is None
            else ratio_text(trial.time_ratio, interval, trial.placement == frontier.reference),
            UNMEASURED if interval is None else f"{interval.low:.4g} to {interval.high:.4g}",
            trial.verdict or UNMEASURED,
            str(trial.rounds) if trial.rounds else UNMEASURED,
            memory(trial.peak_allocated_bytes),
            memory(trial.forecast_peak_bytes),
            UNMEASURED if trial.forecast_error_share is None else error_text(trial.forecast_error_share),
            memory(trial.expected_peak_bytes),
            _milliseconds(trial.expected_replay_ms),
            _milliseconds(trial.replay_ms),
            trial.reason,
        )

    return EvidenceTable(
        study=frontier.study,
        columns=tuple(with_unit.get(name, name) for name in COLUMNS),
        rows=tuple(row(trial) for trial in frontier.trials),
    )


def _milliseconds(time_ms: float | None) -> str:
    return UNMEASURED if time_ms is None else f"{time_ms:.4g}"
