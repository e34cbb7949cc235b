"""Plans against the optimum: of toys by trying all, of small models of the zoo by enumeration, and executed."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import pytest
from torch.utils.flop_counter import FlopCounterMode

from bench.placement.applying import apply
from bench.placement.grammar import parse_placement
from bench.placement.types import Placement
from bench.plan.optimum import Front, Point, Space, TooManyError, optimal_front
from bench.spec import ChainInfo
from bench.step import build_training_step
from bench.trace.record import record_real_step
from tests.plan.planning import Blocks, Mlp, Subject, toy, zoo
from tests.trace.rearrange_checks import CPU
from tests.trace.test_rearrange_models import controls

NUM_BUDGETS = 8
GEOMETRIC_MEAN, WORST = 1.02, 1.06

SMALL: dict[str, tuple[tuple[str, ...], Space]] = {
    "gpt2-tiny": (("model.settings.layers=2",), Space(max_regions=2, max_kept=2, min_freed_share=0.01)),
    "resnet50-tiny": (("model.settings.depths=1-1",), Space(max_regions=2, max_kept=1, min_freed_share=0.08)),
    "mixtral-tiny": (("model.settings.layers=2",), Space(max_regions=2, max_kept=2, min_freed_share=0.02)),
}
"""Two blocks of each: what the grammar can say of one block is some thousand settings, and of two their product."""


@functools.lru_cache(maxsize=3)
def small(model: str) -> tuple[Subject, Front]:
    overrides, space = SMALL[model]
    subject = zoo(model, *overrides)
    return subject, optimal_front(subject.trials, subject.sites, subject.chains, space)


def budgets_of(front: Front) -> list[int]:
    low, high = front.points[-1].peak_bytes, front.points[0].peak_bytes
    return [low + (high - low) * number // (NUM_BUDGETS + 1) for number in range(1, NUM_BUDGETS + 1)]


def two_blocks() -> Subject:
    chain = ChainInfo(name="blocks", units=("blocks.0", "blocks.1"))
    return toy(lambda: Blocks([Mlp(16, 64), Mlp(16, 64)]), 32, 16, chains=[chain])


def tried_all(subject: Subject, max_regions: int) -> list[Point]:
    """The front of all placements without policies, with no thought to parts, sums or order."""
    from bench.placement.types import PlacementError, Region

    points = []
    regions = [Region(units=units) for units in (*subject.sites.chained, *subject.sites.inside)]
    for count in range(max_regions + 1):
        for chosen in itertools.combinations(regions, count):
            try:
                placement = Placement(chosen)
            except PlacementError:  # they cross
                continue
            tried = subject.trials.tried(placement)
            if tried is not None:
                points.append(Point(placement=placement, peak_bytes=int(tried.line.max()), cost_ms=tried.cost_ms))
    front: list[Point] = []
    for point in sorted(points, key=lambda p: (p.cost_ms, p.peak_bytes)):
        if not front or point.peak_bytes < front[-1].peak_bytes:
            front.append(point)
    return front


def test_the_front_is_that_of_trying_all_placements_one_by_one() -> None:
    subject = two_blocks()
    space = Space(max_regions=1, max_kept=0, min_freed_share=0.0)
    found = optimal_front(subject.trials, subject.sites, subject.chains, space).points
    # One region in each block and one outside: of those, all pairs.
    every = [p for p in tried_all(subject, 2) if _one_in_each(p.placement)]
    assert [(p.peak_bytes, pytest.approx(p.cost_ms)) for p in found] == [(p.peak_bytes, p.cost_ms) for p in every]


def _one_in_each(placement: Placement) -> bool:
    blocks = [unit.split(".")[1] for region in placement.regions for unit in region.units[:1]]
    return len(set(blocks)) == len(blocks)


def test_each_point_of_a_front_is_exact_and_none_beats_another() -> None:
    subject = two_blocks()
    front = optimal_front(subject.trials, subject.sites, subject.chains, Space())
    assert front.points[0].placement == Placement()
    for cheaper, smaller in itertools.pairwise(front.points):
        assert cheaper.cost_ms < smaller.cost_ms
        assert cheaper.peak_bytes > smaller.peak_bytes
    for point in front.points:
        assert subject.forecaster.fast(point.placement).peak_allocated_bytes == point.peak_bytes
        assert front.cheapest_within(point.peak_bytes) == point
    assert front.cheapest_within(front.points[-1].peak_bytes - 1) is None


def test_a_space_with_nesting_and_policies_has_a_lower_front() -> None:
    subject = two_blocks()
    narrow, wide = (
        optimal_front(subject.trials, subject.sites, subject.chains, Space(max_regions=regions, max_kept=kept))
        for regions, kept in ((1, 0), (3, 2))
    )
    assert wide.num_placements > 100 * narrow.num_placements
    for point in narrow.points:
        at_it = wide.cheapest_within(point.peak_bytes)
        assert at_it is not None
        assert at_it.cost_ms <= point.cost_ms + 1e-12


def test_a_space_that_is_too_large_is_refused_with_its_size() -> None:
    subject = two_blocks()
    with pytest.raises(TooManyError, match=r"\d+ combinations of settings, and 10 are allowed"):
        optimal_front(subject.trials, subject.sites, subject.chains, Space(max_combinations=10))


def test_plans_of_two_blocks_cost_what_the_optimum_does() -> None:
    subject = two_blocks()
    front = optimal_front(subject.trials, subject.sites, subject.chains, Space(max_regions=3, max_kept=2))
    assert max(ratios(subject, front, budgets_of(front))) <= 1.001


def ratios(subject: Subject, front: Front, budgets: Sequence[int]) -> list[float]:
    """(plain step and replay of the plan) over the optimum's."""
    found = []
    for budget in budgets:
        best, plan = front.cheapest_within(budget), subject.planner.plan(budget)
        assert best is not None
        assert plan.forecast.peak_allocated_bytes <= budget
        found.append((subject.costs.step_ms + plan.replay_ms) / (subject.costs.step_ms + best.cost_ms))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("model", SMALL)
def test_plans_of_small_models_cost_hardly_more_than_the_optimum(model: str) -> None:
    subject, front = small(model)
    assert front.largest_error_bytes <= front.margin_bytes, "sums of changes hid placements from the enumeration"
    found = ratios(subject, front, budgets_of(front))
    mean = math.exp(sum(math.log(ratio) for ratio in found) / len(found))
    print(f"{model}: {front.num_placements} placements, {len(front.points)} on the front, mean {mean:.5f}, {found}")
    assert mean <= GEOMETRIC_MEAN
    assert max(found) <= WORST


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("model", SMALL)
def test_the_optimums_front_and_the_plans_need_in_real_steps_what_is_said_of_them(model: str) -> None:
    """Real steps: peaks from the allocator's own events, FLOPs as they run."""
    subject, front = small(model)
    plans = [subject.planner.plan(budget).placement for budget in budgets_of(front)]
    step = build_training_step(controls(model, *SMALL[model][0]), CPU)
    step.run()
    counted = {}
    for placement in dict.fromkeys([parse_placement("none"), *plans, *(point.placement for point in front.points)]):
        forecast = subject.forecaster.fast(placement)
        log = record_real_step(step, placement.text, subject.forecaster.wiring(), model=model)
        assert abs(log.peak()[0] - forecast.peak_allocated_bytes) <= 512, placement.text
        with (
            apply(step.model, placement, wiring=subject.forecaster.wiring()),
            FlopCounterMode(display=False) as counter,
        ):
            step.run()
        counted[placement.text] = counter.get_total_flops()
        assert counted[placement.text] - counted["none"] <= (forecast.replay_flops or 0), placement.text
