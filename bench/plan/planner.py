"""The placement that costs least within a memory budget, and the few of a frontier that are worth measuring.

The program (`bench.plan.solve`) takes memory to be a sum of changes; each of its answers is forecast as a whole. Where
the forecast is over the budget, what choices change together (`bench.plan.interplay`) is written into the program and
it is solved again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.placement.errors import UnsupportedPlacementError
from bench.placement.types import NONE, Placement, PlacementError
from bench.plan.costs import OpCosts
from bench.plan.interplay import interplays_of
from bench.plan.options import options_of
from bench.plan.repeats import runs_of
from bench.plan.sites import sites_of
from bench.plan.solve import Choice, Program
from bench.plan.trials import Trials
from bench.plan.why import over_budget_text
from bench.records.forecast import Forecast
from bench.spec import ChainInfo
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError

MAX_TIGHTENINGS = 12
MAX_INTERPLAYS = 8
"""That are learnt from one choice."""
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
    """No choice among the planner's options within its budget is expected to cost less, as far as the solver proved."""
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
        runs = runs_of(self._trials.script, chains)
        self._options = options_of(self._trials, sites, runs)
        self._program = Program(self._trials.plain, self._options, step_ms=costs.step_ms)
        self.plain = self._planned(NONE, None, 0.0)
        self._known: list[Planned] = [self.plain]
        """All that was forecast as a whole."""
        self._floor: Planned | None = None

    @property
    def num_options(self) -> int:
        return len(self._options) + sum(len(option.keeps) for option in self._options)

    @property
    def num_trials(self) -> int:
        return self._trials.count

    def consider(self, placement: Placement) -> Planned:
        """Makes a placement from elsewhere one of those that plans are chosen from, so that no plan is dearer at its
        peak.

        Raises:
            PlacementError, UnsupportedPlacementError: as `apply` does.
            CannotRearrangeError: what it replays is not known.
        """
        planned = self._planned(placement, None, 0.0)
        self._known.append(planned)
        self._floor = None
        return planned

    def floor(self) -> Planned:
        """The least peak that any placement of regions reaches, at the least cost that is found for it."""
        if self._floor is None:
            for _ in range(MAX_TIGHTENINGS):
                least = self._program.least_peak()
                planned = self._tried(least, None)
                if planned is not None and not self._tighten(least, planned, int(least.line.max())):
                    break
            lowest = min(_peak(planned) for planned in self._known)
            bound = self._settle(lowest, None)
            self._floor = self._cheapest_known(lowest, None, bound)
            assert self._floor is not None, "one of them is the lowest"
        return self._floor

    def plan(self, budget_bytes: int) -> Planned:
        """
        Args:
            budget_bytes: of the whole step, the persistent state included.

        Raises:
            OverBudgetError: there is no such placement.
        """
        if _peak(self.plain) <= budget_bytes:
            return self.plain
        bound = self._settle(budget_bytes, budget_bytes)
        found = self._cheapest_known(budget_bytes, budget_bytes, bound)
        if found is None:
            raise OverBudgetError(self._why(self.floor(), budget_bytes), self.floor())
        return found

    def _settle(self, most_bytes: int, budget_bytes: int | None) -> float:
        """Has answers of the program forecast as it learns, until one is within its budget. Returns the last bound."""
        margin, bound = 0, 0.0
        for _ in range(MAX_TIGHTENINGS):
            choice = self._program.within(most_bytes - margin)
            if choice is None:
                break
            bound = choice.bound_ms
            planned = self._tried(choice, budget_bytes)
            if planned is None:
                continue
            if _peak(planned) <= most_bytes:
                break
            if not self._tighten(choice, planned, most_bytes - margin):
                margin += _peak(planned) - most_bytes
        return bound

    def _cheapest_known(self, most_bytes: int, budget_bytes: int | None, bound_ms: float) -> Planned | None:
        fitting = [planned for planned in self._known if _peak(planned) <= most_bytes]
        if not fitting:
            return None
        best = min(fitting, key=lambda planned: (planned.replay_ms, _peak(planned)))
        return dataclasses.replace(best, budget_bytes=budget_bytes, bound_ms=min(bound_ms, best.replay_ms))

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
        worth = _worth_measuring(found, count + 1, resolution_ms)
        return tuple(plan for plan in worth if plan.placement != top.placement)

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

    def _tried(self, choice: Choice, budget_bytes: int | None) -> Planned | None:
        """None where the model refuses a region, or what they do together is not known: neither is chosen again."""
        try:
            planned = self._planned(choice.placement, budget_bytes, choice.bound_ms)
        except (PlacementError, UnsupportedPlacementError, CannotRearrangeError):
            if not self._forbid_refused(choice):
                self._program.forbid_together(choice)
            return None
        self._known.append(planned)
        return planned

    def _forbid_refused(self, choice: Choice) -> bool:
        refused = False
        for option, keeps in choice.taken:
            try:
                self._planned(Placement(self._program.regions([(option, keeps)])), None, 0.0)
            except (PlacementError, UnsupportedPlacementError, CannotRearrangeError):
                self._program.forbid(option)
                refused = True
        return refused

    def _tighten(self, choice: Choice, planned: Planned, most_bytes: int) -> bool:
        """Teaches the program what it did not know of a choice that is over the budget. False where it knows all that
        happens to the step itself, so that what the device's allocator or finishing the placement adds is at fault."""
        tried = self._trials.tried(choice.placement)
        assert tried is not None, "it was forecast the same way"
        learnt = False
        for _ in range(MAX_INTERPLAYS):
            line = self._program.line(choice.taken)
            moment = int(tried.line.argmax())
            if tried.line[moment] <= most_bytes or line[moment] >= tried.line[moment]:
                break
            interplays = interplays_of(choice, moment, self._program, self._trials)
            if not interplays:
                break
            self._program.add(interplays)
            learnt = True
        return learnt

    def _why(self, floor: Planned, budget_bytes: int) -> str:
        return over_budget_text(self._forecaster.by_fake_step(floor.placement)[1], budget_bytes)


def _peak(planned: Planned) -> int:
    return planned.forecast.peak_allocated_bytes


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
