"""A placement that fails becomes a record; the study goes on."""

from __future__ import annotations

from collections.abc import Callable

from bench.worker.bench import Bench
from bench.worker.failure import outcome_of
from bench.worker.journal import Journal


class FreshProcessNeededError(BaseException):
    """This process cannot measure on, and nothing is wrong with the placements that are left: the next one will."""


def guarded(
    bench: Bench, journal: Journal, stage: str, placement: str, work: Callable[[], None], round: int | None = None
) -> bool:
    """Announces `stage`, does `work`, and turns an exception into an outcome; returns whether it went well.

    Raises:
        FreshProcessNeededError: the failure has left the step in disorder, or may have changed Python state unseen.
    """
    journal.starting(stage, placement, round)
    try:
        work()
        return True
    except Exception as error:
        outcome, reason = outcome_of(error)
    journal.outcome(placement, outcome, reason, stage)
    try:
        bench.recover()
    except Exception as error:
        raise FreshProcessNeededError(f"after the failure of {placement}: {error}") from error
    if outcome == "invalid":
        raise FreshProcessNeededError(f"after {placement} trained otherwise")
    return False
