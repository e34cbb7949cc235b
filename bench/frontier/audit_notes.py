"""What a reader must know of the audits behind a frontier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bench.frontier.types import Trial
from bench.frontier.words import names
from bench.records import PLAIN


def audit_notes(trials: Sequence[Trial]) -> list[str]:
    return [*_not_audited(trials), *_other_batch(trials)]


def _not_audited(trials: Sequence[Trial]) -> list[str]:
    placed = [trial for trial in trials if trial.outcome == "ok" and trial.placement != PLAIN]
    without = [trial.placement for trial in placed if trial.audit is None]
    if not without:
        return []
    if len(without) == len(placed):
        return ["not audited: whether a replayed step trains the same was not proved for any placement"]
    return [f"not audited, so whether their replay trains the same is not proved: {names(without)}"]


def _other_batch(trials: Sequence[Trial]) -> list[str]:
    placements: dict[str, list[str]] = defaultdict(list)
    for trial in trials:
        if trial.audit_note:
            placements[trial.audit_note].append(trial.placement)
    return [f"{note} ({names(audited)})" for note, audited in placements.items()]
