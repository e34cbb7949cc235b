"""The placement that costs least within a memory budget, and the few of a frontier that are worth measuring.

The program (`bench.plan.solve`) takes memory to be a sum of changes; each of its answers is forecast as a whole. Where
the forecast is over the budget, what the sum missed at that moment is written into the program and it is solved again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.placement.types import NONE, Placement
from bench.plan.costs import OpCosts
from bench.plan.options import options_of
from bench.plan.repeats import runs_of
from bench.plan.sites import sites_of
from bench.plan.solve import Choice, Program
from bench.plan.trials import Trials
from bench.records.forecast import Forecast
from bench.spec import ChainInfo
from bench.trace.forecast import Forecaster

MAX_TIGHTENINGS = 6
GRID = 24
"""Budgets between the floor and `none` that a frontier is chosen from."""

Finish = Callable[[Placement], Placement]


@dataclass(frozen=True, kw_only=True)
class Planned:
    placement: Placement
    forecast: Forecast
    replay_ms: float
    """By how much its step is expected to take longer than the plain one."""
    bound_ms: float
    """No choice among the planner's options within its budget is expected to cost less."""
    budget_bytes: int | None = None
    """That it was planned for; None for the floor."""


class OverBudgetError(ValueError):
    """No placement gets under the budget; says which moment forbids it."""

    def __init__(self, message: str, floor: Planned) -> None:
        super().__init__(message)
        self.floor = floor


class Planner:
    """Plans of one model's step on one device."""

    def __init__(
        self,
        forecaster: Forecaster,
        chains: Sequence[ChainInfo],
        costs: OpCosts,
        *,
        finish: Finish = lambda placement: placement,
    ) -> None:
        """
        Args:
            finish: gives regions the checkpoint options that they need to be valid (`@restore`).

        Raises:
            CannotRearrangeError: what placements do cannot be worked out from this step.
        """
        self._forecaster = forecaster
        self._finish = finish
        self._trials = Trials(forecaster, costs)
        self._costs = costs
        sites = sites_of(self._trials.script, forecaster.wiring(), chains)
        runs = runs_of(self._trials.script, chains, self._trials.turn)
        self._options = options_of(self._trials, sites, runs)
        self._program = Program(self._trials.plain, self._options, step_ms=costs.step_ms)
        self.plain = self._planned(NONE, None, 0.0)
        self._floor: Planned | None = None

    @property
    def num_options(self) -> int:
        return len(self._options) + sum(len(option.keeps) for option in self._options)

    @property
    def num_trials(self) -> int:
        return self._trials.count

    def floor(self) -> Planned:
        """The least peak that any placement of regions reaches, at the least cost that is found for it."""
        if self._floor is None:
            least = self._program.least_peak()
            cheapest = self._program.within(int(least.line.max()))
            self._floor = self._checked(cheapest or least, None)
        return self._floor

    def plan(self, budget_bytes: int) -> Planned:
        """
        Args:
            budget_bytes: of the whole step, the persistent state included.

        Raises:
            OverBudgetError: there is no such placement.
        """
        if self.plain.forecast.peak_allocated_bytes <= budget_bytes:
            return self.plain
        for _ in range(MAX_TIGHTENINGS):
            choice = self._program.within(budget_bytes)
            if choice is None:
                break
            planned = self._checked(choice, budget_bytes)
            if planned.forecast.peak_allocated_bytes <= budget_bytes:
                return planned
            self._tighten(choice, planned)
        floor = self.floor()
        if floor.forecast.peak_allocated_bytes <= budget_bytes:
            return floor
        raise OverBudgetError(self._why(floor), floor)

    def frontier(self, count: int, *, resolution_ms: float) -> tuple[Planned, ...]:
        """At most `count` plans from the floor up, `none` left out: those whose measurement tells most.

        Args:
            resolution_ms: a difference in step time below which measuring two plans would not tell them apart.
        """
        floor, top = self.floor(), self.plain
        low, high = floor.forecast.peak_allocated_bytes, top.forecast.peak_allocated_bytes
        found = [floor, top]
        for step in range(1, GRID):
            try:
                found.append(self.plan(low + (high - low) * step // GRID))
            except OverBudgetError:
                continue
        return tuple(plan for plan in _worth_measuring(found, count + 1, resolution_ms) if plan is not top)

    def _planned(self, placement: Placement, budget_bytes: int | None, bound_ms: float) -> Planned:
        finished = self._finish(placement)
        step = self._forecaster.rearranged(placement)
        return Planned(
            placement=finished,
            forecast=self._forecaster.forecast(finished),
            replay_ms=self._costs.replay_ms(step),
            bound_ms=bound_ms,
            budget_bytes=budget_bytes,
        )

    def _checked(self, choice: Choice, budget_bytes: int | None) -> Planned:
        return self._planned(choice.placement, budget_bytes, choice.bound_ms)

    def _tighten(self, choice: Choice, planned: Planned) -> None:
        tried = self._trials.tried(choice.placement)
        assert tried is not None, "it was forecast the same way"
        line = tried.line
        moment = int(line.argmax())
        # What the sum missed there, and what finishing the placement or the device's allocator adds to any moment.
        beyond = planned.forecast.peak_allocated_bytes - int(line[moment])
        self._program.correct(moment, int(line[moment] - choice.line[moment]) + max(0, beyond))

    def _why(self, floor: Planned) -> str:
        peak, persistent = floor.forecast.peak_allocated_bytes, floor.forecast.persistent_bytes
        return (
            f"no placement gets under {peak} bytes: {persistent} of them are there before the step, "
            f"and the rest is needed in {floor.forecast.peak_phase} whatever is replayed"
        )


def _worth_measuring(plans: Sequence[Planned], count: int, resolution_ms: float) -> list[Planned]:
    """The plans that enclose the most area between memory and cost, the ends first; in order of memory."""
    front: list[Planned] = []
    for plan in sorted(plans, key=lambda p: (p.forecast.peak_allocated_bytes, p.replay_ms)):
        if not front or plan.replay_ms < front[-1].replay_ms - resolution_ms:
            front.append(plan)
        elif plan.replay_ms == 0 and front[-1].replay_ms > 0:
            front[-1] = plan
    chosen = {0, len(front) - 1} if front else set()
    while len(chosen) < min(count, len(front)):
        chosen.add(max((i for i in range(len(front)) if i not in chosen), key=lambda i: _gain(front, chosen, i)))
    return [front[i] for i in sorted(chosen)]


def _gain(front: Sequence[Planned], chosen: set[int], new: int) -> float:
    """Area that a measured step function of memory and cost would lose by one more point."""
    below = front[max(i for i in chosen if i < new)]
    above = front[min(i for i in chosen if i > new)]
    saved = below.replay_ms - front[new].replay_ms
    return saved * (above.forecast.peak_allocated_bytes - front[new].forecast.peak_allocated_bytes)
