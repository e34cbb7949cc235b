"""A placement that fails becomes a record; the study goes on."""

from __future__ import annotations

from collections.abc import Callable

from bench.worker.bench import Bench
from bench.worker.failure import outcome_of
from bench.worker.journal import Journal


def guarded(
    bench: Bench, journal: Journal, stage: str, placement: str, work: Callable[[], None], round: int | None = None
) -> bool:
    """Announces `stage`, does `work`, and turns an exception into an outcome; returns whether it went well."""
    journal.starting(stage, placement, round)
    try:
        work()
        return True
    except Exception as error:
        outcome, reason = outcome_of(error)
    bench.recover()
    journal.outcome(placement, outcome, reason, stage)
    return False
