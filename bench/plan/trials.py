"""Single placements tried on the plain step's recording: what they replay, cost and change."""

from __future__ import annotations

from dataclasses import dataclass

from bench.placement.types import NONE, Placement
from bench.plan.costs import OpCosts
from bench.plan.moments import Change, Line, high_water
from bench.step.interface import BACKWARD
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError, Rearranged
from bench.trace.rearrange_script import Script
from bench.trace.saved import PHASE


@dataclass(frozen=True, eq=False, kw_only=True)
class Tried:
    step: Rearranged
    line: Line
    change: Change
    """Against the plain step."""
    cost_ms: float
    policy_ms: float
    """Of that, what policies cost."""


class Trials:
    def __init__(self, forecaster: Forecaster, costs: OpCosts) -> None:
        """Raises CannotRearrangeError where no placement can be worked out from the plain step."""
        self._rearranger = forecaster.rearranger
        self.costs = costs
        self.log = forecaster.plain_log
        self.script: Script = self._rearranger.script
        self.persistent_bytes = self.log.persistent_bytes
        self.plain: Line = high_water(self._rearranger.rearranged(NONE), self.persistent_bytes)
        phases = self.script.phases
        self.turn = next(
            moment
            for moment, (kind, index) in enumerate(self.script.items)
            if kind == PHASE and phases[index].phase == BACKWARD
        )
        """The moment at which the first backward begins."""
        self.count = 0

    def tried(self, placement: Placement) -> Tried | None:
        """None for one that takes a whole fake step. Whether the model can be given it is not asked."""
        self.count += 1
        try:
            step = self._rearranger.rearranged(placement)
        except CannotRearrangeError:
            return None
        line = high_water(step, self.persistent_bytes)
        parts = self.costs.parts_ms(step)
        change = Change.between(self.plain, line)
        return Tried(step=step, line=line, change=change, cost_ms=sum(parts), policy_ms=parts[2])
