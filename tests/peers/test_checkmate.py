"""Checkmate's program against exhaustive search, against the figures of its paper, and as placements."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from bench.peers.checkmate import checkmate, from_profile, least_budget, placement, schedule_cost, solve
from bench.peers.checkmate_graph import (
    Graph,
    Node,
    Schedule,
    cost_of,
    kept_at_checkpoints,
    peak_bytes,
    recomputed_cost,
    schedule_of,
    training_graph,
    trimmed,
)
from bench.peers.checkmate_program import lower_bound, optimal_schedule, rounded_schedule
from bench.peers.chen import greedy_plan
from bench.peers.errors import OverBudgetError
from bench.peers.rotor import from_profile as rotor_stages, optimal_schedule as rotor_schedule
from bench.peers.rotor_schedule import rerun_ms
from bench.plan.profile import ChainProfile, StepProfile
from tests.peers.networks import VGG16, VGG19, VGG19_PARAMETERS, vgg, vgg_unet
from tests.peers.profiles import chain_profile, step_of, two_chain_profile, unit_profile

V100_BYTES = 16 * 10**9


def linear_network(random_numbers: random.Random, count: int) -> Graph:
    layers = [
        Node(
            name=f"l{index}",
            cost=random_numbers.randint(1, 9),
            output_bytes=random_numbers.randint(1, 9),
            inputs=(index - 1,) if index else (),
        )
        for index in range(count)
    ]
    return training_graph(layers, loss_bytes=1, fixed_bytes=17)


def cheapest_by_search(graph: Graph, budget_bytes: int) -> float | None:
    """Over all schedules, stage by stage: every set of outputs that can be kept from one stage to the next."""
    count = len(graph.nodes)
    costs: dict[frozenset[int], float] = {frozenset(): 0.0}
    for stage in range(count):
        after: dict[frozenset[int], float] = {}
        for kept, cost in costs.items():
            candidates = range(stage + 1) if stage + 1 < count else ()
            for kept_after in subsets(candidates):
                computed = computed_in_stage(graph, stage, kept, kept_after)
                if peak_of_stage(graph, kept, kept_after, computed) <= budget_bytes - graph.fixed_bytes:
                    total = cost + sum(graph.nodes[index].cost for index in computed)
                    after[kept_after] = min(total, after.get(kept_after, math.inf))
        costs = after
    return min(costs.values(), default=None)


def subsets(items: Iterable[int]) -> Iterable[frozenset[int]]:
    pool = list(items)
    return (frozenset(some) for size in range(len(pool) + 1) for some in itertools.combinations(pool, size))


def computed_in_stage(graph: Graph, stage: int, kept: frozenset[int], kept_after: frozenset[int]) -> list[int]:
    needed = {stage} | (kept_after - kept)
    for index in range(stage, -1, -1):
        if index in needed:
            needed |= set(graph.nodes[index].inputs) - kept
    return sorted(needed)


def peak_of_stage(graph: Graph, kept: frozenset[int], kept_after: frozenset[int], computed: Sequence[int]) -> int:
    alive = set(kept)
    peak = sum(graph.nodes[index].output_bytes for index in alive)
    for position, index in enumerate(computed):
        alive.add(index)
        peak = max(peak, sum(graph.nodes[i].output_bytes for i in alive))
        still_read = {source for later in computed[position + 1 :] for source in graph.nodes[later].inputs}
        alive = {i for i in alive if i in still_read | kept_after or i > index or (i in kept and i in kept_after)}
    return peak


@pytest.mark.parametrize("seed", [0, 4, 10, 12])
def test_the_program_equals_exhaustive_search_on_small_linear_networks(seed: int) -> None:
    graph = linear_network(random.Random(seed), 3)
    everything = peak_bytes(graph, schedule_of(graph, kept_at_checkpoints(graph, range(3))))
    costs = set()
    for budget in range(graph.fixed_bytes + 1, everything + 1):
        expected = cheapest_by_search(graph, budget)
        if expected is None:
            with pytest.raises(OverBudgetError):
                optimal_schedule(graph, budget)
            continue
        costs.add(expected)
        found = optimal_schedule(graph, budget)
        assert found.is_optimal
        assert found.cost == pytest.approx(expected)
        assert found.peak_bytes == peak_bytes(graph, found.schedule) <= budget
    assert max(costs) > graph.cost  # some budgets force recomputation


def test_what_a_schedule_reads_is_there() -> None:
    graph = linear_network(random.Random(9), 8)
    found = optimal_schedule(graph, graph.fixed_bytes + 40)
    computed, kept = found.schedule.computed, found.schedule.kept
    assert computed.diagonal().all()
    assert not np.triu(computed, 1).any()
    assert not np.triu(kept).any()
    assert (kept[1:] <= (kept[:-1] | computed[:-1])).all()
    for index, node in enumerate(graph.nodes):
        for source in node.inputs:
            assert (computed[:, index] <= (computed[:, source] | kept[:, source])).all()


def test_the_relaxation_is_a_bound_and_rounding_fits() -> None:
    graph = linear_network(random.Random(2), 8)
    everything = peak_bytes(graph, schedule_of(graph, kept_at_checkpoints(graph, range(8))))
    for share in (0.95, 0.85, 0.75):
        budget = graph.fixed_bytes + int((everything - graph.fixed_bytes) * share)
        best, rounded = optimal_schedule(graph, budget), rounded_schedule(graph, budget)
        assert graph.cost <= lower_bound(graph, budget) <= best.cost + 1e-6 <= rounded.cost + 2e-6
        assert rounded.peak_bytes == peak_bytes(graph, rounded.schedule) <= budget


def test_a_schedule_at_checkpoints_frees_each_output_after_its_last_reader() -> None:
    layers = [Node(name=f"l{i}", cost=1, output_bytes=1, inputs=(i - 1,) if i else ()) for i in range(9)]
    graph = training_graph(layers, loss_bytes=1)
    rebuilt = kept_at_checkpoints(graph, [2, 5])
    # Layers 0, 1, 3 and 4 again; 6 to 8 are there when backward begins.
    assert recomputed_cost(graph, schedule_of(graph, rebuilt)) == 4
    assert (trimmed(graph, rebuilt) == rebuilt).all()
    held = kept_at_checkpoints(graph, [2, 5], until_end=True)
    assert peak_bytes(graph, schedule_of(graph, rebuilt)) < peak_bytes(graph, schedule_of(graph, held))


class TestFiguresOfTheArtifact:
    """VGG19's largest batch on a 16 GB V100, as its README at branch mlsys20_artifact gives them: 167 with everything
    kept, 197 with √n, 266 with greedy, and 289.03459 by the program, certifiably optimal. All are reproduced exactly.
    Its baselines count parameters and gradients twice, and hold checkpoints to the end of the step; both are followed
    here."""

    graph = vgg(VGG19)
    free_bytes = V100_BYTES - 2 * 4 * VGG19_PARAMETERS
    baseline_bytes = V100_BYTES - 2 * 2 * 4 * VGG19_PARAMETERS

    def largest_batch(self, checkpoints: Sequence[int]) -> int:
        schedule = schedule_of(self.graph, kept_at_checkpoints(self.graph, checkpoints, until_end=True))
        assert recomputed_cost(self.graph, schedule) <= sum(
            node.cost for node in self.graph.nodes[: self.graph.num_forward]
        )
        return self.baseline_bytes // peak_bytes(self.graph, schedule)

    def test_everything_kept(self) -> None:
        assert self.largest_batch(range(self.graph.num_forward)) == 167

    def test_chen_sqrt(self) -> None:
        assert self.largest_batch(sqrt_checkpoints(range(self.graph.num_forward))) == 197

    def test_chen_greedy(self) -> None:
        candidates = greedy_checkpoints(self.graph, range(self.graph.num_forward))
        assert max(self.largest_batch(checkpoints) for checkpoints in candidates) == 266

    def test_the_program(self) -> None:
        least = least_budget(self.graph)
        found = optimal_schedule(self.graph, least)
        assert self.free_bytes / found.peak_bytes == pytest.approx(289.03459, abs=5e-6)
        assert recomputed_cost(self.graph, found.schedule) < 0.01 * self.graph.cost
        with pytest.raises(OverBudgetError):
            optimal_schedule(self.graph, least - 1000)


def sqrt_checkpoints(candidates: Sequence[int]) -> list[int]:
    every = math.isqrt(len(candidates))
    return list(candidates[every - 1 :: every])


def greedy_checkpoints(graph: Graph, candidates: Sequence[int]) -> list[tuple[int, ...]]:
    """Algorithm 3 over bounds from 0 to three times √n's peak, as the artifact tries them; where a candidate is no good
    place to cut, the segment goes on to the next one."""
    sqrt_schedule = schedule_of(graph, kept_at_checkpoints(graph, sqrt_checkpoints(candidates), until_end=True))
    sizes = [
        sum(node.output_bytes for node in graph.nodes[a + 1 : b + 1]) for a, b in itertools.pairwise([-1, *candidates])
    ]
    outputs = [graph.nodes[index].output_bytes for index in candidates]
    plans = {
        greedy_plan(outputs, sizes, bound=peak_bytes(graph, sqrt_schedule) * step / 20).segments for step in range(60)
    }
    return [tuple(candidates[end - 1] for _, end in segments) for segments in sorted(plans)]


@dataclass(frozen=True, kw_only=True)
class Ratios:
    rounding: float
    sqrt: float
    greedy: float


def table_2(graph: Graph, *, num_budgets: int) -> Ratios:
    """A row of the paper's table 2: geometric means of each method's cost over the optimum's, over the budgets that the
    method can keep, evenly spaced from the least that any node needs to what keeping everything takes.
    """
    candidates = range(graph.num_forward)  # the linearised variants: any layer may be a checkpoint
    points = {
        "sqrt": [point(graph, sqrt_checkpoints(candidates))],
        "greedy": [point(graph, checkpoints) for checkpoints in greedy_checkpoints(graph, candidates)],
        "rounding": [],
    }
    size = [node.output_bytes for node in graph.nodes]
    least = max(size[i] + sum(size[j] for j in node.inputs) for i, node in enumerate(graph.nodes))
    most = point(graph, range(graph.num_forward))[0]
    best: dict[int, float] = {}
    for step in range(num_budgets):
        budget = least + (most - least) * step // (num_budgets - 1)
        try:
            best[budget] = optimal_schedule(graph, budget).cost
            rounded = rounded_schedule(graph, budget)
        except OverBudgetError:
            continue
        points["rounding"].append((rounded.peak_bytes, rounded.cost))
    means = {}
    for method, reached in points.items():
        ratios = [
            min(cost for peak, cost in reached if peak <= budget) / cost_of_best
            for budget, cost_of_best in best.items()
            if any(peak <= budget for peak, _ in reached)
        ]
        means[method] = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return Ratios(rounding=means["rounding"], sqrt=means["sqrt"], greedy=means["greedy"])


def point(graph: Graph, checkpoints: Sequence[int]) -> tuple[int, float]:
    schedule = schedule_of(graph, kept_at_checkpoints(graph, checkpoints, until_end=True))
    return peak_bytes(graph, schedule), cost_of(graph, schedule)


def in_published_bounds(ratios: Ratios) -> bool:
    """Rounding and √n lie where the paper's five networks do (1.00–1.06 and 1.14–1.54), and greedy is not above (1.39).

    The paper's costs are layer times measured on a V100, which are not public, at more budgets; here they are FLOPs, at
    few budgets. So the paper's ranges are asked for, not its rows. Found here:

                   rounding    √n   greedy
        VGG16          1.00  1.22     1.04
        VGG19          1.00  1.23     1.05
        U-Net          1.06  1.43     1.21
        the paper 1.00–1.06  1.14–1.54  1.06–1.39

    Greedy can be below the paper's range: the artifact's code, followed here, tries more bounds than the paper's did,
    as its README says. MobileNet (185 nodes) and ResNet-50 (353) are left out: HiGHS takes minutes a budget for the
    first, and more than two for the second's relaxation alone.
    """
    return 1.0 <= ratios.rounding <= 1.06 and 1.14 <= ratios.sqrt <= 1.54 and ratios.greedy <= 1.39


def test_vgg16_is_as_in_table_2() -> None:
    ratios = table_2(vgg(VGG16), num_budgets=6)
    assert in_published_bounds(ratios)
    assert ratios.sqrt == pytest.approx(1.22, abs=0.005)


@pytest.mark.slow
def test_vgg19_is_as_in_table_2() -> None:
    ratios = table_2(vgg(VGG19), num_budgets=12)
    assert in_published_bounds(ratios)
    assert ratios.sqrt == pytest.approx(1.23, abs=0.005)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_unet_is_as_in_table_2() -> None:
    assert in_published_bounds(table_2(vgg_unet(), num_budgets=6))


def made_up_step(count: int) -> StepProfile:
    units = tuple(
        unit_profile(f"h.{index}", "h", forward_extra_bytes=150, backward_extra_bytes=300) for index in range(count)
    )
    return step_of(ChainProfile(name="h", units=units), head_bytes=800)


def test_the_graph_of_a_profile_has_its_time_and_plain_peak() -> None:
    profile = made_up_step(5)
    graph, units = from_profile(profile)
    plain = schedule_cost(graph, schedule_of(graph, kept_at_checkpoints(graph, range(graph.num_forward))))
    assert plain.recomputed_ms == 0
    assert plain.total_ms == pytest.approx(profile.step_ms)
    assert plain.peak_bytes == profile.peak_bytes
    assert [unit.unit for unit in units] == [f"h.{index}" for index in range(5)]


@pytest.mark.parametrize("share", [0.95, 0.8, 0.6, 0.45])
def test_on_units_it_costs_what_rotor_costs_and_its_placement_replays_no_more(share: float) -> None:
    profile = made_up_step(6)
    free = int((profile.peak_bytes - profile.persistent_bytes) * share)
    stages, input_bytes = rotor_stages(profile)
    solution = solve(profile, profile.persistent_bytes + free)
    graph, units = from_profile(profile)
    cost = schedule_cost(graph, solution.schedule)
    assert solution.is_optimal
    assert cost.peak_bytes == solution.peak_bytes <= profile.persistent_bytes + free
    assert 0 < cost.recomputed_ms <= rerun_ms(rotor_schedule(stages, free, input_bytes=input_bytes, slots=free), stages)
    forward_ms = {unit.unit: unit.forward_ms for chain in profile.chains for unit in chain.units}
    replayed = sum(forward_ms[unit] for region in placement(solution.schedule, units).regions for unit in region.units)
    assert 0 < replayed <= cost.recomputed_ms


def test_a_unit_whose_inside_is_dropped_is_a_region_and_units_are_a_span_where_the_output_between_is_dropped_too() -> (
    None
):
    graph, units = from_profile(chain_profile(count=4))
    plain = kept_at_checkpoints(graph, range(graph.num_forward))

    def dropped(*nodes: int) -> Schedule:
        kept = plain.copy()
        for node in nodes:
            kept[max(graph.num_forward - 1, node + 2) : graph.num_forward + 2, node] = False
        return schedule_of(graph, trimmed(graph, kept))

    assert placement(schedule_of(graph, plain), units).text == "none"
    assert placement(dropped(units[1].inside), units).text == "h.1"
    assert placement(dropped(units[1].inside, units[2].inside), units).text == "h.1..2:each"
    assert placement(dropped(units[1].inside, units[1].output, units[2].inside), units).text == "h.1..2"


def test_a_span_stays_in_its_chain_and_no_budget_asks_for_the_least() -> None:
    profile = two_chain_profile()
    lowest = checkmate(profile, None, time_limit_s=5)
    assert len({unit for region in lowest.regions for unit in region.units}) > 4
    for region in lowest.regions:
        assert len({unit.split(".")[0] for unit in region.units}) == 1
    with pytest.raises(OverBudgetError, match="no schedule has a peak of at most 5100 bytes"):
        checkmate(profile, profile.persistent_bytes + 100)
