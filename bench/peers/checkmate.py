"""Checkmate on a model's units: the graph of a step's profile, and a schedule of it as a placement.

Its own grammar is wider than ours: any output may be dropped and computed again at any time. What a schedule says of
units is told apart here into regions; see `placement` for what is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.peers.checkmate_graph import Graph, Node, Schedule, cost_of, peak_bytes, recomputed_cost
from bench.peers.checkmate_program import TIME_LIMIT_S, Solution, optimal_schedule
from bench.peers.errors import OverBudgetError
from bench.placement import Placement, Region

if TYPE_CHECKING:
    from bench.plan.profile import StepProfile

FLOOR_STEPS = 6
"""How often the budget is halved towards the least one that has a schedule, where none is asked for."""


@dataclass(frozen=True, kw_only=True)
class UnitNodes:
    """Where a unit stands in the graph."""

    unit: str
    chain: str
    inside: int
    output: int


@dataclass(frozen=True, kw_only=True)
class ScheduleCost:
    recomputed_ms: float
    """Beyond computing each node once."""
    total_ms: float
    peak_bytes: int
    """By Checkmate's model of memory, what persists included."""


def checkmate(profile: StepProfile, budget_bytes: int | None, *, time_limit_s: float = TIME_LIMIT_S) -> Placement:
    """The placement of the cheapest schedule within `budget_bytes` of peak; None: within about the least budget there
    is.

    Raises:
        OverBudgetError: no schedule fits, or none was found in time.
    """
    graph, units = from_profile(profile)
    budget = least_budget(graph, time_limit_s=time_limit_s) if budget_bytes is None else budget_bytes
    return placement(solve(profile, budget, time_limit_s=time_limit_s).schedule, units)


def solve(profile: StepProfile, budget_bytes: int, *, time_limit_s: float = TIME_LIMIT_S) -> Solution:
    """The schedule itself, its cost, and the gap to the best bound, where time was up.

    Raises:
        OverBudgetError: no schedule fits, or none was found in time.
    """
    return optimal_schedule(from_profile(profile)[0], budget_bytes, time_limit_s=time_limit_s)


def from_profile(profile: StepProfile) -> tuple[Graph, tuple[UnitNodes, ...]]:
    """The graph of a step, and where its units are in it.

    Each unit is two forward nodes, what it saves and what it hands on, and one backward node. So the inside can be
    dropped and the output kept, as a region does; a single node could only keep or drop both. The inside costs the
    forward; the output then costs nothing, and is kept wherever the inside is, being a part of it. Backward reads the
    inside, the unit's input and the gradient after it, and makes a gradient as large as the input. What a unit needs
    while it runs is added to the budget's use at that node. Chains follow each other as one, as in rotor's model. What
    the plain step's peak and time have beyond the units' is the loss node's.
    """
    units = [unit for chain in profile.chains for unit in chain.units]
    nodes = [Node(name="input", cost=0, output_bytes=units[0].input_bytes, inputs=())]
    places: list[UnitNodes] = []
    for unit in units:
        inside = len(nodes)
        places.append(UnitNodes(unit=unit.unit, chain=unit.chain, inside=inside, output=inside + 1))
        nodes.append(
            Node(
                name=f"{unit.unit} inside",
                cost=unit.forward_ms,
                output_bytes=max(0, unit.saved_bytes - unit.output_bytes),
                inputs=(inside - 1,),
                working_bytes=unit.forward_extra_bytes,
                kept_with=inside + 1,
            )
        )
        nodes.append(Node(name=f"{unit.unit} output", cost=0, output_bytes=unit.output_bytes, inputs=(inside,)))
    num_forward = len(nodes)
    saved = sum(node.output_bytes for node in nodes)
    nodes.append(
        Node(
            name="loss",
            cost=max(0.0, profile.step_ms - sum(unit.forward_ms + unit.backward_ms for unit in units)),
            output_bytes=units[-1].output_bytes,
            inputs=(num_forward - 1,),
            working_bytes=max(0, profile.peak_bytes - profile.persistent_bytes - saved - units[-1].output_bytes),
        )
    )
    for unit, place in reversed(list(zip(units, places, strict=True))):
        nodes.append(
            Node(
                name=f"{unit.unit} backward",
                cost=unit.backward_ms,
                output_bytes=nodes[place.inside - 1].output_bytes,
                inputs=(place.inside - 1, place.inside, place.output, len(nodes) - 1),
                working_bytes=unit.backward_extra_bytes,
            )
        )
    return Graph(nodes=tuple(nodes), num_forward=num_forward, fixed_bytes=profile.persistent_bytes), tuple(places)


def schedule_cost(graph: Graph, schedule: Schedule) -> ScheduleCost:
    return ScheduleCost(
        recomputed_ms=recomputed_cost(graph, schedule),
        total_ms=cost_of(graph, schedule),
        peak_bytes=peak_bytes(graph, schedule),
    )


def placement(schedule: Schedule, units: tuple[UnitNodes, ...]) -> Placement:
    """The schedule as regions: units whose inside is computed more than once; one joins the unit before it where the
    output between them is not held until then, and so is rebuilt with it.

    It never replays more than the schedule computes again. It may take more memory, where the schedule is wider than
    the grammar: a unit computed three times and more is one region and is replayed once (no nesting is read out of it),
    and what the schedule drops and rebuilds at other moments than a region does is held for as long as the region holds
    it.
    """
    regions: list[list[UnitNodes]] = []
    before: UnitNodes | None = None
    for unit in units:
        stages = np.flatnonzero(schedule.computed[:, unit.inside])
        if len(stages) > 1:
            is_alone = (
                before is None or before.chain != unit.chain or _is_held(schedule, before.output, until=stages[1])
            )
            if before is None or is_alone:
                regions.append([unit])
            else:
                regions[-1].append(unit)
        before = unit
    return Placement(tuple(Region(units=tuple(unit.unit for unit in region)) for region in regions))


def _is_held(schedule: Schedule, node: int, *, until: int) -> bool:
    """Whether the node's output is kept from when it was first computed to stage `until`."""
    return bool(schedule.kept[node + 1 : until + 1, node].all())


def least_budget(graph: Graph, *, time_limit_s: float = TIME_LIMIT_S) -> int:
    """A budget near the least one that has a schedule, by halving between what no schedule can go below and the peak of
    keeping everything.

    Raises:
        OverBudgetError: not even the last budget tried had a schedule in time.
    """
    size = [node.output_bytes for node in graph.nodes]
    low = graph.fixed_bytes + max(
        size[index] + node.working_bytes + sum(size[source] for source in node.inputs)
        for index, node in enumerate(graph.nodes)
    )
    high = graph.fixed_bytes + sum(size) + max(node.working_bytes for node in graph.nodes)
    if _has_schedule(graph, low, time_limit_s):
        return low
    for _ in range(FLOOR_STEPS):
        middle = (low + high) // 2
        low, high = (low, middle) if _has_schedule(graph, middle, time_limit_s) else (middle, high)
    return high


def _has_schedule(graph: Graph, budget_bytes: int, time_limit_s: float) -> bool:
    try:
        optimal_schedule(graph, budget_bytes, time_limit_s=time_limit_s)
    except OverBudgetError:
        return False
    return True
