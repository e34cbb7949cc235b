"""Chen et al.: segments of a chain, of equal length, of equal bytes, or cut again inside.

Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016 (arXiv 1604.06174): √n segments
(section 4.1), memory planning with a budget (algorithm 3), recursion (section 4.4). A segment is a region over its
units: forward keeps its input alone, and backward rebuilds it. The units of all chains are one list, as the authors
would take them; but a segment ends where its chain does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.peers.errors import OverBudgetError
from bench.placement import Placement, Region

if TYPE_CHECKING:
    from bench.plan.profile import StepProfile, UnitProfile

Segment = tuple[int, int]
"""First unit and the one after the last."""


def chen_sqrt(profile: StepProfile, budget_bytes: int | None = None) -> Placement:
    """√n segments of equal length in each chain; the method has no budget."""
    return _placement(
        profile, [segment for start, end in _chains(profile) for segment in sqrt_segments(end - start, first=start)]
    )


def chen_recursive(profile: StepProfile, budget_bytes: int | None = None, *, k: int = 1) -> Placement:
    """Each chain cut into k + 1 parts, each part again and so on: O(log n) memory, O(n log n) forwards; no budget."""
    return _placement(
        profile,
        [segment for start, end in _chains(profile) for segment in recursive_segments(end - start, k, first=start)],
    )


def chen_greedy(profile: StepProfile, budget_bytes: int | None) -> Placement:
    """Algorithm 3 at the bound whose plan fits `budget_bytes` and replays least; None: at the bound of least memory.

    What a plan takes is estimated as the paper does: all inter-segment outputs, and the largest segment. To it comes
    what the plain step's peak has beyond all that the units save.

    Raises:
        OverBudgetError: no bound's plan fits.
    """
    units = _units(profile)
    plans = greedy_plans(
        [unit.output_bytes for unit in units],
        [max(unit.saved_bytes, unit.output_bytes) for unit in units],
        ends=[end for _, end in _chains(profile)],
    )

    def replay_ms(plan: GreedyPlan) -> float:
        return sum(units[index].forward_ms for start, end in plan.segments for index in range(start, end))

    if budget_bytes is None:
        return _placement(profile, min(plans, key=lambda plan: (plan.estimated_bytes, replay_ms(plan))).segments)
    saved = sum(max(unit.saved_bytes, unit.output_bytes) for unit in units)
    others = max(0, profile.peak_bytes - profile.persistent_bytes - saved)
    free = budget_bytes - profile.persistent_bytes - others
    fitting = [plan for plan in plans if plan.estimated_bytes <= free]
    if not fitting:
        least = min(plan.estimated_bytes for plan in plans)
        raise OverBudgetError(
            f"Chen greedy: its least plan takes {least} bytes of activations; {free} are left for them"
        )
    return _placement(profile, min(fitting, key=lambda plan: (replay_ms(plan), plan.estimated_bytes)).segments)


def sqrt_segments(count: int, *, first: int = 0) -> tuple[Segment, ...]:
    """√n segments of n nodes, rounded; earlier ones are longer by one where it does not divide."""
    return even_segments(count, max(1, round(math.sqrt(count))), first=first)


def even_segments(count: int, num_segments: int, *, first: int = 0) -> tuple[Segment, ...]:
    size, longer = divmod(count, num_segments)
    ends = itertools.accumulate((size + (index < longer) for index in range(num_segments)), initial=first)
    return tuple((start, end) for start, end in itertools.pairwise(ends) if end > start)


def recursive_segments(count: int, k: int, *, first: int = 0) -> tuple[Segment, ...]:
    """The paper's recursion: keep k outputs, which cut the nodes into k + 1 parts, and treat each part alike.

    The last part is no segment of its own: backward begins with it, so it is cut at once. Memory g(n) = k + g(n /
    (k+1)) gives k·log_(k+1) n.
    """
    if count <= 1:
        return ()
    parts = even_segments(count, min(k + 1, count), first=first)
    found: list[Segment] = list(parts[:-1])
    for start, end in parts:
        found += recursive_segments(end - start, k, first=start)
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class GreedyPlan:
    segments: tuple[Segment, ...]
    """Those that the bound has closed; what follows the last is never closed, so it is not rebuilt."""
    stored_bytes: int
    """x of algorithm 3: outputs at the ends of segments."""
    working_bytes: int
    """y: the largest segment."""

    @property
    def estimated_bytes(self) -> int:
        return self.stored_bytes + self.working_bytes


def greedy_plan(
    output_bytes: Sequence[int], saved_bytes: Sequence[int], bound: float, *, ends: Sequence[int] = ()
) -> GreedyPlan:
    """Algorithm 3: gather nodes until they take more than `bound`, close the segment there, and go on.

    output_bytes: of each node, stored where it ends a segment; saved_bytes: what each adds to its segment when rebuilt
    (the
        paper's nodes are single layers, whose outputs are both). ends: where a segment is closed in any case.
    """
    segments: list[Segment] = []
    start = gathered = stored = working = 0
    for index, (output, saved) in enumerate(zip(output_bytes, saved_bytes, strict=True)):
        gathered += saved
        working = max(working, gathered)
        is_end = index + 1 in ends and index + 1 < len(saved_bytes)
        if gathered > bound or is_end:
            stored += output
            segments.append((start, index + 1))
            start, gathered = index + 1, 0
    return GreedyPlan(segments=tuple(segments), stored_bytes=stored, working_bytes=working)


def greedy_plans(
    output_bytes: Sequence[int], saved_bytes: Sequence[int], *, ends: Sequence[int] = ()
) -> tuple[GreedyPlan, ...]:
    """Every plan that some bound gives. The paper looks for a good bound between √(xy) / √2 and √2 · √(xy) of a first
    plan; but only sums of neighbours change the outcome, so all of them can be tried."""
    until = [0, *itertools.accumulate(saved_bytes)]
    bounds = {until[b] - until[a] for a in range(len(until)) for b in range(a + 1, len(until))} | {-1}
    plans = {
        plan.segments: plan
        for bound in sorted(bounds)
        for plan in [greedy_plan(output_bytes, saved_bytes, bound, ends=ends)]
    }
    return tuple(plans.values())


def _units(profile: StepProfile) -> list[UnitProfile]:
    return [unit for chain in profile.chains for unit in chain.units]


def _chains(profile: StepProfile) -> list[Segment]:
    ends = itertools.accumulate((len(chain.units) for chain in profile.chains), initial=0)
    return list(itertools.pairwise(ends))


def _placement(profile: StepProfile, segments: Sequence[Segment]) -> Placement:
    names = [unit.unit for unit in _units(profile)]
    return Placement(tuple(Region(units=tuple(names[start:end])) for start, end in segments))
