"""Single placements tried on the plain step's recording: what they replay, cost and change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.placement.types import NONE, Placement
from bench.plan.costs import OpCosts
from bench.plan.moments import Change, Line, high_water
from bench.trace.forecast import Forecaster
from bench.trace.log import Op
from bench.trace.rearrange import CannotRearrangeError, Rearranged
from bench.trace.rearrange_script import Script


@dataclass(frozen=True, eq=False, kw_only=True)
class Tried:
    step: Rearranged
    line: Line
    change: Change
    """Against the plain step."""
    ops_ms: float
    """Of the ops that run again."""
    regions_ms: float
    """Of the regions themselves."""
    policy_ms: float
    """Of the policies."""

    @property
    def cost_ms(self) -> float:
        return self.ops_ms + self.regions_ms + self.policy_ms


class Trials:
    def __init__(self, forecaster: Forecaster, costs: OpCosts) -> None:
        """Raises CannotRearrangeError where no placement can be worked out from the plain step."""
        self._rearranger = forecaster.rearranger
        self.costs = costs
        self.log = forecaster.plain_log
        self.script: Script = self._rearranger.script
        self.persistent_bytes = self.log.persistent_bytes
        self.plain: Line = high_water(self._rearranger.rearranged(NONE), self.persistent_bytes)
        self.rewritten = _rewritten(self.log.ops)
        """Storages that an op changes that did not make them; what a policy keeps must stay as it was."""
        self.count = 0

    def tried(self, placement: Placement) -> Tried | None:
        """None for one that takes a whole fake step. Whether the model can be given it is not asked."""
        self.count += 1
        try:
            step = self._rearranger.rearranged(placement)
        except CannotRearrangeError:
            return None
        line = high_water(step, self.persistent_bytes)
        with_flops_ms, others_ms, regions_ms, policy_ms = self.costs.parts_ms(step)
        return Tried(
            step=step,
            line=line,
            change=Change.between(self.plain, line),
            ops_ms=with_flops_ms + others_ms,
            regions_ms=regions_ms,
            policy_ms=policy_ms,
        )


def _rewritten(ops: Sequence[Op]) -> set[int]:
    made: set[int] = set()
    changed: set[int] = set()
    for op in ops:
        for storage in op.writes:
            (changed if storage in made else made).add(storage)
    return changed
