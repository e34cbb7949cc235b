"""How thoroughly a placement is audited."""

from __future__ import annotations

from dataclasses import dataclass

from bench.spec import SpecError

STEPS_MIN = 2
"""State that moves in the replay of one step is read by the next."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    steps: int = STEPS_MIN
    """Optimizer steps a trial; a forward without a backward follows."""
    trials: int = 10
    """Each goes on where the plain steps of the one before ended, under another seed, so that they see other weights,
    counters and masks. What goes wrong at one of 20 step numbers is seen by 20 / steps of them; what goes wrong by
    chance in 1 step of 20 needs about 3 × 20 / steps to be seen for sure."""
    confirm: int = 2
    """Further trials once the first has differed, which tell a placement that is always wrong from one that is
    sometimes: from the same start under other seeds. Where nothing explains what differed, the last of them starts
    where the plain steps ended instead, since it may belong to a step's number."""
    seed: int = 0
    """Of the first trial; the next has the next."""

    def __post_init__(self) -> None:
        if self.steps < STEPS_MIN:
            raise SpecError(f"steps: an audit needs at least {STEPS_MIN}, got {self.steps}")
        if self.trials < 1:
            raise SpecError(f"trials: expected at least 1, got {self.trials}")
        if self.confirm < 0:
            raise SpecError(f"confirm: expected at least 0, got {self.confirm}")


GATE = AuditOptions(trials=1)
"""For every placement of a study: two steps and a forward."""
