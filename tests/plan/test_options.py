"""The options that plans are made of, and what each is said to do."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.placement.types import Placement, Region
from bench.plan.options import Option, keepable_ops
from bench.spec import ChainInfo
from tests.plan.planning import Blocks, Mlp, Subject, toy, zoo
from tests.plan.test_repeats import assert_options_are_exact

ONE = (ChainInfo(name="blocks", units=("blocks.0",)),)


@pytest.fixture(scope="module")
def three() -> Subject:
    return toy(lambda: Blocks([Mlp(32, 128) for _ in range(3)]), 16, 32)


def option_at(subject: Subject, *units: str) -> Option:
    (found,) = (o for o in subject.options if o.regions == (Region(units=units),))
    return found


def test_what_is_said_of_each_option_is_what_trying_it_says(three: Subject) -> None:
    assert_options_are_exact(three)


def test_two_options_share_an_atom_where_one_touches_the_other(three: Subject) -> None:
    for one in three.options:
        for other in three.options:
            touch = any(a.touches(b) for a in one.regions for b in other.regions)
            assert bool(one.atoms & other.atoms) == touch, (Placement(one.regions), Placement(other.regions))


def test_what_frees_nothing_is_no_option() -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    subject = toy(lambda: Blocks([nn.Linear(8, 8), Adds(), nn.Tanh()]), 4, 8)
    assert not [option for option in subject.options if option.atoms == {"blocks.1"}]


def test_keeping_an_output_saves_its_ops_time_and_no_others(three: Subject) -> None:
    block = option_at(three, "blocks.1")
    matmul = three.costs.op_ms[next(i for i, op in enumerate(three.trials.log.ops) if op.name == "addmm")]
    times = {keep.calls: keep.saved_ms for keep in block.keeps}
    assert times[(("matmul", 0),)] == pytest.approx(matmul)
    regions = block.keeping(block.keeps)
    assert three.tried(*regions).ops_ms == pytest.approx(three.tried(*block.regions).ops_ms - sum(times.values()))


def test_a_shared_unit_keeps_an_output_of_each_of_its_calls() -> None:
    def build() -> nn.Module:
        shared = Mlp(32, 128)
        return Blocks([Mlp(32, 128), shared, shared])

    subject = toy(build, 16, 32, chains=[ChainInfo(name="blocks", units=("blocks.0", "blocks.1"))])
    assert_options_are_exact(subject)
    once, twice = (
        {keep.calls: keep.saved_ms for keep in option_at(subject, unit).keeps}[(("matmul", 0),)]
        for unit in ("blocks.0", "blocks.1")
    )
    assert twice == pytest.approx(2 * once)


def test_an_output_that_changes_in_place_is_not_kept() -> None:
    """torch.utils.checkpoint would notice in backward that what it kept is no more what it was."""

    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.down(torch.relu_(self.up(x))))

    subject = toy(lambda: Blocks([InPlace()]), 16, 32, chains=ONE)
    calls = {
        calls
        for calls, _ in keepable_ops(subject.trials, ("blocks.0",), subject.tried(Region(units=("blocks.0",))).step)
    }
    assert (("matmul", 1),) in calls
    assert (("matmul", 0),) not in calls
    assert not [calls for calls in calls for op, _ in calls if op.endswith("_")]


def test_equal_blocks_of_a_span_keep_the_same_op_together() -> None:
    subject = zoo("gpt2-tiny")
    span = ("transformer.h.1", "transformer.h.2")
    kept = [calls for calls, _ in keepable_ops(subject.trials, span, subject.tried(Region(units=span)).step)]
    assert (("matmul", 0), ("matmul", 4)) in kept  # of four in each block, the first
    assert (("attention", 0), ("attention", 1)) in kept


def test_weights_that_autocast_casts_leave_options_and_no_policy_that_torch_refuses() -> None:
    subject = zoo("gpt2-tiny", "precision=bf16-autocast")
    assert subject.options
    for option in subject.options[:20]:
        for keep in option.keeps[:2]:
            subject.forecaster.by_fake_step(Placement(option.keeping([keep])))


def test_a_region_of_a_unit_has_a_twin_with_its_parts_nested(three: Subject) -> None:
    nested = [option for option in three.options if len(option.regions) > 1]
    assert nested
    for option in nested:
        assert all(option.regions[0].contains(inner) for inner in option.regions[1:])
