"""Checkmate's integer program, and its linear relaxation with two-phase rounding, on HiGHS.

Source: arXiv 1910.02653, equations 1 to 9 and section 5. Minimise Σ C_i R[t, i] such that

    R[t, j] ≤ R[t, i] + S[t, i]            for each j that reads i: what is read is kept or computed
    S[t, i] ≤ R[t-1, i] + S[t-1, i]        only what was there can be kept
    R[t, t] = 1; R[t, i] = 0 for i > t; S[t, i] = 0 for i ≥ t          stages advance the frontier by one node each
    U[t, 0] = fixed + Σ M_i S[t, i] + M_0 R[t, 0]
    U[t, k+1] = U[t, k] + M_{k+1} R[t, k+1] - Σ_i M_i FREE[t, i, k]     for i that k reads
    U[t, k] ≤ budget

FREE[t, i, k] says that i is freed after k in stage t. The paper makes it the product of "k is computed", "i is not
kept" and "nothing computed later in the stage reads i", by two inequalities with large coefficients. Here it is bounded
by each factor by itself, which its authors' code adds for its largest programs: then FREE is 0 or 1 by itself where R
and S are, so that only these two are integer variables, and the relaxation is tighter. What cannot matter is left out:
keeping an output past its last reader, nodes that a stage has not come to, and freeing a node that nothing read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from bench.peers.checkmate_graph import Graph, Schedule, cost_of, peak_bytes, schedule_of, trimmed
from bench.peers.errors import OverBudgetError

TIME_LIMIT_S = 60.0
RELATIVE_GAP = 1e-4
"""A schedule is optimal when it costs at most this share more than the best bound."""
THRESHOLDS = tuple(round(0.1 * step, 1) for step in range(1, 10))
"""A share of S above which it is rounded to 1; the schedule that fits and costs least is taken, as in the authors'
code."""
ALLOWANCE = 0.1
"""The relaxation is solved for this share less than the budget, since rounding adds memory (the paper's ε)."""

_FEASIBLE, _TIME_LIMIT, _INFEASIBLE = 0, 1, 2  # statuses of scipy.optimize.milp


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    schedule: Schedule
    cost: float
    peak_bytes: int
    lower_bound: float
    """No schedule within the budget costs less."""

    @property
    def gap(self) -> float:
        """How much more it costs, as a share, than the lower bound."""
        return self.cost / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def is_optimal(self) -> bool:
        return self.gap <= 1.1 * RELATIVE_GAP


def optimal_schedule(graph: Graph, budget_bytes: int, *, time_limit_s: float = TIME_LIMIT_S) -> Solution:
    """The cheapest schedule whose peak is at most `budget_bytes`, or the best one found when time is up: see its `gap`.

    Raises:
        OverBudgetError: no schedule fits, or none was found in time.
    """
    budget = budget_bytes
    program = _Program.of(graph)
    while True:
        result = program.solve(budget, is_integer=True, time_limit_s=time_limit_s)
        if result.kept is None:
            if result.is_infeasible:
                raise OverBudgetError(f"Checkmate: no schedule has a peak of at most {budget_bytes} bytes")
            return _rounded_in_time(graph, budget_bytes, result.lower_bound, time_limit_s)
        schedule = schedule_of(graph, trimmed(graph, result.kept > 0.5))
        excess = peak_bytes(graph, schedule) - budget_bytes
        if excess <= 0:
            return Solution(
                schedule=schedule,
                cost=cost_of(graph, schedule),
                peak_bytes=budget_bytes + excess,
                lower_bound=result.lower_bound,
            )
        # The solver holds constraints within a tolerance of a millionth of the largest output.
        budget -= excess


def rounded_schedule(
    graph: Graph, budget_bytes: int, *, allowance: float = ALLOWANCE, time_limit_s: float = TIME_LIMIT_S
) -> Solution:
    """The relaxation's S, rounded, with the least R that it takes: near-optimal, and much faster on large graphs.

    Raises:
        OverBudgetError: the relaxation has no solution within (1 - allowance) × budget, or no rounding fits the budget.
    """
    activations = budget_bytes - graph.fixed_bytes
    lower_budget = graph.fixed_bytes + round((1 - allowance) * activations)
    result = _Program.of(graph).solve(lower_budget, is_integer=False, time_limit_s=time_limit_s)
    if result.kept is None:
        raise OverBudgetError(f"Checkmate: its relaxation has no schedule with a peak of at most {lower_budget} bytes")
    found: list[Solution] = []
    for threshold in THRESHOLDS:
        schedule = schedule_of(graph, trimmed(graph, result.kept >= threshold))
        peak = peak_bytes(graph, schedule)
        if peak <= budget_bytes:
            cost = cost_of(graph, schedule)
            # A bound at a lower budget is none at this one, except that nothing costs less than computing all once.
            bound = result.lower_bound if lower_budget >= budget_bytes else graph.cost
            found.append(Solution(schedule=schedule, cost=cost, peak_bytes=peak, lower_bound=bound))
    if not found:
        raise OverBudgetError(f"Checkmate: no rounding of its relaxation has a peak of at most {budget_bytes} bytes")
    return min(found, key=lambda solution: solution.cost)


def lower_bound(graph: Graph, budget_bytes: int, *, time_limit_s: float = TIME_LIMIT_S) -> float:
    """What the relaxation costs: no schedule within the budget costs less.

    Raises:
        OverBudgetError: the relaxation has no solution, so no schedule fits either; or it was not solved in time.
    """
    result = _Program.of(graph).solve(budget_bytes, is_integer=False, time_limit_s=time_limit_s)
    if result.kept is None:
        raise OverBudgetError(f"Checkmate: its relaxation has no schedule with a peak of at most {budget_bytes} bytes")
    return result.lower_bound


def _rounded_in_time(graph: Graph, budget_bytes: int, bound: float, time_limit_s: float) -> Solution:
    for allowance in (ALLOWANCE, ALLOWANCE / 2, 0.0):
        try:
            found = rounded_schedule(graph, budget_bytes, allowance=allowance, time_limit_s=time_limit_s)
        except OverBudgetError:
            continue
        return Solution(schedule=found.schedule, cost=found.cost, peak_bytes=found.peak_bytes, lower_bound=bound)
    raise OverBudgetError(f"Checkmate: no schedule of at most {budget_bytes} bytes found in {time_limit_s:.0f} s")


@dataclass(frozen=True, kw_only=True)
class _Result:
    kept: NDArray[np.float64] | None
    """S: float64[nodes, nodes]."""
    lower_bound: float
    is_infeasible: bool


@dataclass(frozen=True, kw_only=True)
class _Program:
    """The program, all but its budget. Memory is in units of the largest output, cost in shares of the graph's."""

    graph: Graph
    columns: dict[tuple[str | int, ...], int]
    matrix: csr_array
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    working: dict[int, float]
    """Row → the working bytes' share that its bound, which is the budget, is lowered by where its node is computed."""
    unit_bytes: float

    @classmethod
    def of(cls, graph: Graph) -> _Program:
        return _Builder(graph).program()

    def solve(self, budget_bytes: int, *, is_integer: bool, time_limit_s: float) -> _Result:
        count = len(self.graph.nodes)
        budget = (budget_bytes - self.graph.fixed_bytes) / self.unit_bytes
        low, high = np.zeros(len(self.columns)), np.ones(len(self.columns))
        objective, integrality = np.zeros(len(self.columns)), np.zeros(len(self.columns))
        total = self.graph.cost or 1.0
        for key, column in self.columns.items():
            if key[0] == "R":
                stage, index = int(key[1]), int(key[2])
                objective[column] = self.graph.nodes[index].cost / total
                low[column] = stage == index
            if key[0] == "U":
                high[column] = max(budget, 0.0)
            elif key[0] in ("R", "S"):
                integrality[column] = is_integer
        upper = self.upper.copy()
        upper[list(self.working)] = budget
        result = milp(
            objective,
            constraints=LinearConstraint(self.matrix, self.lower, upper),
            bounds=Bounds(low, high),
            integrality=integrality,
            options={"time_limit": time_limit_s, "mip_rel_gap": RELATIVE_GAP},
        )
        bound = result.mip_dual_bound if is_integer else result.fun
        lower = max(1.0, bound if bound is not None and np.isfinite(bound) else 1.0) * total
        if budget <= 0 or result.x is None:
            return _Result(kept=None, lower_bound=lower, is_infeasible=budget <= 0 or result.status == _INFEASIBLE)
        kept = np.zeros((count, count))
        for key, column in self.columns.items():
            if key[0] == "S":
                kept[int(key[1]), int(key[2])] = result.x[column]
        return _Result(kept=kept, lower_bound=lower, is_infeasible=False)


class _Builder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.columns: dict[tuple[str | int, ...], int] = {}
        self.rows: list[dict[int, float]] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.working: dict[int, float] = {}
        self.unit_bytes = float(max(max(node.output_bytes for node in graph.nodes), 1))
        self.sizes = [node.output_bytes / self.unit_bytes for node in graph.nodes]
        self.last_reader = [max(readers, default=-1) for readers in graph.readers]

    def program(self) -> _Program:
        for stage in range(len(self.graph.nodes)):
            self.add_availability(stage)
            self.add_freeing(stage)
            self.add_memory(stage)
        entries = [(row, column, value) for row, terms in enumerate(self.rows) for column, value in terms.items()]
        rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
        return _Program(
            graph=self.graph,
            columns=self.columns,
            matrix=csr_array((values, (rows, columns)), shape=(len(self.rows), len(self.columns))),
            lower=np.array(self.lower),
            upper=np.array(self.upper),
            working=self.working,
            unit_bytes=self.unit_bytes,
        )

    def column(self, *key: str | int) -> int:
        return self.columns.setdefault(key, len(self.columns))

    def kept(self, stage: int, index: int) -> dict[int, float]:
        """S[stage, index] as a term, nothing where it is 0 for sure."""
        if index < stage <= self.last_reader[index]:
            return {self.column("S", stage, index): 1.0}
        return {}

    def computed(self, stage: int, index: int) -> dict[int, float]:
        return {self.column("R", stage, index): 1.0} if index <= stage else {}

    def add(self, *terms: tuple[float, dict[int, float]], low: float = -np.inf, high: float) -> int:
        row: dict[int, float] = defaultdict(float)
        for factor, columns in terms:
            for column, value in columns.items():
                row[column] += factor * value
        self.rows.append(row)
        self.lower.append(low)
        self.upper.append(high)
        return len(self.rows) - 1

    def add_availability(self, stage: int) -> None:
        for index in range(stage):
            if kept := self.kept(stage, index):
                before = self.computed(stage - 1, index) | self.kept(stage - 1, index)
                self.add((1, kept), (-1, before), high=0)
                whole = self.graph.nodes[index].kept_with
                if whole is not None and whole < stage:
                    self.add((1, kept), (-1, self.kept(stage, whole)), high=0)
        for index in range(stage + 1):
            for source in self.graph.nodes[index].inputs:
                there = self.computed(stage, source) | self.kept(stage, source)
                self.add((1, self.computed(stage, index)), (-1, there), high=0)

    def add_freeing(self, stage: int) -> None:
        for source in range(stage):
            readers = [reader for reader in self.graph.readers[source] if reader <= stage]
            freed = {reader: {self.column("F", stage, source, reader): 1.0} for reader in readers}
            for reader in readers:
                self.add((1, freed[reader]), (-1, self.computed(stage, reader)), high=0)
                self.add((1, freed[reader]), (1, self.kept(stage + 1, source)), high=1)
                for later in readers:
                    if later > reader:
                        self.add((1, freed[reader]), (1, self.computed(stage, later)), high=1)
            if len(readers) > 1:
                self.add(*((1.0, column) for column in freed.values()), high=1)

    def add_memory(self, stage: int) -> None:
        first = {self.column("U", stage, 0): 1.0}
        kept = {column: self.sizes[i] for i in range(stage) for column in self.kept(stage, i)}
        self.add((1, first), (-self.sizes[0], self.computed(stage, 0)), (-1, kept), low=0, high=0)
        for index in range(stage + 1):
            used = {self.column("U", stage, index): 1.0}
            if working := self.graph.nodes[index].working_bytes:
                share = working / self.unit_bytes
                row = self.add((1, used), (share, self.computed(stage, index)), high=np.inf)
                self.working[row] = share
            if index < stage:
                freed = {
                    self.column("F", stage, source, index): self.sizes[source]
                    for source in self.graph.nodes[index].inputs
                }
                after = {self.column("U", stage, index + 1): 1.0}
                made = (-self.sizes[index + 1], self.computed(stage, index + 1))
                self.add((1, after), (-1, used), made, (1, freed), low=0, high=0)
