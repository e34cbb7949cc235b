"""Plans: within their budget, applicable, and what is known of them by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from bench.placement import generate_placements
from bench.placement.applying import apply
from bench.placement.grammar import parse_placement
from bench.placement.types import NONE, Placement
from bench.plan.planner import OverBudgetError, Planned, Planner
from bench.spec import ChainInfo
from tests.plan.planning import Blocks, Mlp, Subject, toy, zoo

MODELS = (
    "gpt2-tiny",
    "llama-tiny",
    "llama-lora-tiny",
    "t5-tiny",
    "vit-tiny",
    "swin-tiny",
    "mixtral-tiny",
    "resnet50-tiny",
    "densenet-tiny",
    "unet-tiny",
)
LARGE = ("t5-tiny", "unet-tiny", "densenet-tiny")
QUICK_AND_SLOW = [pytest.param(model, marks=pytest.mark.slow) if model in LARGE else model for model in MODELS]
SIMPLE = {"each": True, "every": [2], "but_last": [1], "spans": ["sqrt"], "nested": ["sqrt"], "policies": ["matmul"]}


def peak(planned: Planned) -> int:
    return planned.forecast.peak_allocated_bytes


@pytest.fixture(scope="module")
def three() -> Subject:
    return toy(lambda: Blocks([Mlp(32, 128) for _ in range(3)]), 64, 32)


# Known by hand


class Wide(nn.Module):
    """Saves a few tensors of middle size."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.tanh(self.linear(x).repeat(1, 8))).sum(dim=1, keepdim=True) + x


class Large(nn.Module):
    """Saves one tensor, larger than all others of the model."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x.repeat(1, 24)).sum(dim=1, keepdim=True) + x


def test_the_largest_tensor_that_is_dead_at_the_peak_is_never_planned_for() -> None:
    """Backward goes through the last block first, so that its tensor is gone when the gradient of the second block's
    weights is made, which is where most is allocated; of what is there then, only the first block's can go."""

    def build() -> nn.Module:
        return Blocks([Wide(), nn.Linear(256, 256 * 16), nn.Linear(256 * 16, 256), Large()])

    chain = ChainInfo(name="blocks", units=tuple(f"blocks.{n}" for n in range(4)))
    subject = toy(build, 16, 256, chains=[chain])
    log = subject.trials.log
    made = [s for s in log.storages if s.birth is not None and log.ops[s.op].phase == "forward"]
    largest = max(made, key=lambda storage: storage.size_bytes)
    at, module = log.peak()[1], log.ops[largest.op].module
    assert module == "blocks.3"
    assert largest.death is not None
    assert largest.death < at
    plain = peak(subject.planner.plain)
    assert subject.forecaster.fast("blocks.3").peak_allocated_bytes == plain
    freed = subject.forecaster.fast("blocks.0").peak_allocated_bytes
    assert freed < plain
    for budget in (freed, (freed + plain) // 2, plain - 1):
        plan = subject.planner.plan(budget)
        assert peak(plan) <= budget
        assert {module for _, module in subject.replayed(plan.placement)} <= {"blocks.0", "blocks.0.linear"}


class Held(nn.Module):
    """One tensor saved, of the input's size, by an op that needs its input's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.sin(torch.sin(x)))


def test_the_last_block_is_left_plain_where_its_replay_buys_nothing() -> None:
    """The peak is as the last block's backward begins, and its replay would make all that it freed."""
    chain = ChainInfo(name="blocks", units=("blocks.1", "blocks.2", "blocks.3"))
    subject = toy(lambda: Blocks([nn.Linear(64, 64), *(Held() for _ in range(3))]), 256, 64, chains=[chain])
    both = subject.forecaster.fast("blocks.1..2:each").peak_allocated_bytes
    assert subject.forecaster.fast("blocks.1..3:each").peak_allocated_bytes >= both
    plan = subject.planner.plan(both)
    assert {module for _, module in subject.replayed(plan.placement)} == {"blocks.1", "blocks.2"}


def test_a_boundary_that_leaves_a_blocks_last_matmul_out_is_found_where_it_pays(three: Subject) -> None:
    """A region of the whole block runs both matmuls again, since the op after the second saves its output. One that
    ends with the second matmul stops before it: the first one and its activation are all that is wanted."""
    whole = three.forecaster.fast("blocks.0")
    assert [op for op, _ in three.replayed("blocks.0")] == ["addmm", "tanh", "addmm", "tanh"]
    plan = three.planner.plan(whole.peak_allocated_bytes)
    assert peak(plan) <= whole.peak_allocated_bytes
    ran = three.replayed(plan.placement)
    assert ran
    assert {module.rpartition(".")[2] for _, module in ran} <= {"up", "act"}
    (region,) = plan.placement.regions
    assert region.units[-1].endswith(".down")


# Contracts


def test_a_budget_that_the_plain_step_fits_needs_nothing(three: Subject) -> None:
    for budget in (peak(three.planner.plain), 10 * peak(three.planner.plain)):
        plan = three.planner.plan(budget)
        assert (plan.placement, plan.replay_ms) == (NONE, 0)


def test_a_budget_below_the_floor_is_an_error_with_the_floor(three: Subject) -> None:
    floor = three.planner.floor()
    with pytest.raises(OverBudgetError) as error:
        three.planner.plan(peak(floor) - 1)
    assert error.value.floor.placement == floor.placement


def test_the_floor_is_a_plan_for_its_own_peak(three: Subject) -> None:
    floor = three.planner.floor()
    plan = three.planner.plan(peak(floor))
    assert (peak(plan), plan.replay_ms) == (peak(floor), floor.replay_ms)


def test_less_memory_costs_no_less(three: Subject) -> None:
    plans = [three.planner.plan(budget) for budget in three.budgets(6)]
    for lower, higher in itertools.pairwise(plans):
        assert lower.replay_ms >= higher.replay_ms


def test_a_bound_is_never_above_what_was_found(three: Subject) -> None:
    for budget in three.budgets(4):
        plan = three.planner.plan(budget)
        assert 0 <= plan.bound_ms <= plan.replay_ms


def test_the_cost_of_a_plan_is_that_of_what_it_replays(three: Subject) -> None:
    plan = three.planner.plan(three.budgets(2)[0])
    log = three.forecaster.plain_log
    ran = three.forecaster.rearranged(plan.placement).replayed
    assert plan.replay_ms == pytest.approx(sum(three.costs.op_ms[op] for op in ran))
    assert plan.forecast.replay_flops == sum(log.ops[op].flops or 0 for op in ran)


def test_a_frontier_has_ever_less_cost_for_ever_more_memory(three: Subject) -> None:
    plans = three.planner.frontier(4, resolution_ms=0.0)
    assert 0 < len(plans) <= 4
    assert peak(plans[0]) == peak(three.planner.floor())
    for lower, higher in itertools.pairwise(plans):
        assert peak(lower) < peak(higher)
        assert lower.replay_ms > higher.replay_ms
    assert all(plan.placement != NONE for plan in plans)


def test_a_model_without_chains_or_anything_to_free_has_the_plain_step_alone() -> None:
    subject = toy(lambda: Blocks([nn.Linear(8, 8)]), 4, 8, chains=[])
    assert subject.planner.floor().placement == NONE
    assert subject.planner.frontier(4, resolution_ms=0.0) == ()
    with pytest.raises(OverBudgetError):
        subject.planner.plan(subject.trials.persistent_bytes)


def test_memory_that_no_option_knows_of_is_kept_free(three: Subject) -> None:
    """`finish` may add some: here, each region saves and restores random states where it did not."""
    planner = Planner(three.forecaster, three.chains, three.costs, finish=Placement.restored)
    for budget in three.budgets(3):
        assert peak(planner.plan(budget)) <= budget


def test_regions_that_the_model_refuses_are_left_out() -> None:
    """A span with backward hooks on a unit is refused by `apply`; wiring and recording do not show it."""

    def build() -> nn.Module:
        model = Blocks([nn.Linear(32, 32), *(Mlp(32, 128) for _ in range(3))])
        model.blocks[2].register_full_backward_hook(lambda *_: None)
        return model

    subject = toy(build, 64, 32, chains=[ChainInfo(name="blocks", units=("blocks.1", "blocks.2", "blocks.3"))])
    assert [o for o in subject.options if len(o.regions[0].units) > 1 and "blocks.2" in o.regions[0].units]
    for budget in [peak(subject.planner.floor()), *subject.budgets(3)]:
        plan = subject.planner.plan(budget)
        assert peak(plan) <= budget
        with apply(subject.forecaster.model, plan.placement, wiring=subject.forecaster.wiring()):
            pass


def test_a_placement_from_elsewhere_bounds_plans_at_its_peak(three: Subject) -> None:
    given = three.planner.consider(parse_placement("blocks.0..2:each"))
    assert three.planner.plan(peak(given)).replay_ms <= given.replay_ms


# The zoo


@pytest.mark.parametrize("model", QUICK_AND_SLOW)
def test_every_plan_of_the_zoo_is_within_its_budget_and_applicable(model: str) -> None:
    subject = zoo(model)
    for budget in subject.budgets(3):
        plan = subject.planner.plan(budget)
        assert peak(plan) <= budget
        assert subject.forecaster.by_fake_step(plan.placement)[0].peak_allocated_bytes == peak(plan)
        with apply(subject.forecaster.model, plan.placement, wiring=subject.forecaster.wiring()):
            pass


@pytest.mark.parametrize("model", QUICK_AND_SLOW)
def test_no_default_placement_of_the_zoo_is_cheaper_than_the_plan_at_its_peak(model: str) -> None:
    """A tenth of a per cent of the step is what the solver leaves undecided."""
    subject = zoo(model)
    for entry in generate_placements(SIMPLE, subject.chains):
        forecast = subject.forecaster.fast(entry.text)
        if forecast.peak_allocated_bytes >= peak(subject.planner.plain):
            continue
        theirs = subject.costs.replay_ms(subject.forecaster.rearranged(entry.text))
        given = subject.planner.consider(parse_placement(entry.text))
        plan = subject.planner.plan(peak(given))
        assert plan.replay_ms <= theirs, entry.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [("precision=bf16-autocast",), ("precision=bf16-pure",), ("workload.accumulation=2", "optimizer=sgd")],
    ids=" ".join,
)
@pytest.mark.parametrize("model", MODELS)
def test_every_plan_is_within_its_budget_in_other_steps(model: str, overrides: tuple[str, ...]) -> None:
    subject = zoo(model, *overrides)
    for budget in subject.budgets(3):
        plan = subject.planner.plan(budget)
        assert peak(plan) <= budget
        assert subject.forecaster.by_fake_step(plan.placement)[0].peak_allocated_bytes == peak(plan)
