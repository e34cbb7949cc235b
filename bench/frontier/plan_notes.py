"""What a reader must know of the plans beside the measured placements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bench.frontier.types import Trial
from bench.frontier.words import count, names
from bench.records import Plans

TOLERATED_SHARE = 0.01
"""An expected peak that is off by more of what could move than this is told."""
NUM_REASONS = 3
"""Different reasons for missing placements that are spelled out."""


def plan_notes(plans: Plans, trials: Sequence[Trial]) -> list[str]:
    return [
        *([plans.problem] if plans.problem else []),
        *_errors(trials),
        *_missing(plans),
        *(f"plan: {note}" for note in plans.notes),
    ]


def _errors(trials: Sequence[Trial]) -> list[str]:
    errors = {t.placement: t.expected_peak_error_share for t in trials if t.expected_peak_error_share is not None}
    missed = {placement: share for placement, share in errors.items() if abs(share) > TOLERATED_SHARE}
    if not missed:
        return []
    worst = max(missed, key=lambda placement: abs(missed[placement]))
    return [
        f"the expected peak of {count(len(missed))} is off by more than {100 * TOLERATED_SHARE:g} % of what could "
        f"move, most that of {worst} by {100 * missed[worst]:+.1f} %: what was measured holds"
    ]


def _missing(plans: Plans) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for asked, why in plans.missing.items():
        by_reason[why].append(asked)
    told = [f"no placement for {names(asked)}: {why}" for why, asked in list(by_reason.items())[:NUM_REASONS]]
    hidden = sum(map(len, list(by_reason.values())[NUM_REASONS:]))
    return told + ([f"no placement for {hidden} more, for other reasons (plan.json)"] if hidden else [])
