"""A placement that fails becomes a record; the study goes on."""

from __future__ import annotations

from collections.abc import Callable

from bench.worker.bench import Bench
from bench.worker.failure import outcome_of
from bench.worker.journal import Journal

UNSOUND_AFTER = {
    "invalid": "trained otherwise",  # by Python state that moved, perhaps, and that nobody puts back
    "leaking": "leaked",  # what nobody can reach cannot be freed, and the next placement has that much less memory
}
"""Outcomes after which the process may not be what it was, in words."""


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
    except (Exception, SystemExit) as error:  # sys.exit() in a model's code is not for us to follow
        outcome, reason = outcome_of(error)
    journal.outcome(placement, outcome, reason, stage)
    try:
        bench.recover()
    except Exception as error:
        raise FreshProcessNeededError(f"after the failure of {placement}: {error}") from error
    if outcome in UNSOUND_AFTER:
        raise FreshProcessNeededError(f"after {placement} {UNSOUND_AFTER[outcome]}")
    return False
