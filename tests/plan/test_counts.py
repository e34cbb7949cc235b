"""What placements add to a toy's step, counted by hand and in two ways that share no code."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.plan.counts import ReplayCounts, counts_of_log
from bench.trace.forecast import Forecaster
from tests.trace.rearrange_checks import FakeToy, forecaster_of

ROWS, WIDTH = 16, 64


class Block(nn.Module):
    """Three ops; all are saved for backward."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)).sin()


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x * self.scale)


@pytest.fixture(scope="module")
def toy() -> Forecaster:
    return forecaster_of(FakeToy(Chain, lambda: [torch.randn(ROWS, WIDTH)]))


def counted(toy: Forecaster, placement: str) -> tuple[int, int, int]:
    found = toy.rearranged(placement)
    return len(found.replayed), found.num_replays, found.num_policy_ops


def test_each_region_is_replayed_once_up_to_its_last_saved_tensor(toy: Forecaster) -> None:
    # `sin` saves its input, so its own output is not rebuilt.
    assert counted(toy, "none") == (0, 0, 0)
    assert counted(toy, "blocks.1") == (2, 1, 0)
    assert counted(toy, "blocks.0..2:each") == (6, 3, 0)
    assert counted(toy, "blocks.0..2:each@no-early-stop") == (9, 3, 0)
    assert counted(toy, "blocks.0..2") == (8, 1, 0)


def test_an_op_answered_from_what_a_policy_kept_did_not_run(toy: Forecaster) -> None:
    # A first pass of three ops under the policy, and in the replay `tanh` alone.
    assert counted(toy, "blocks.0..2:each:keep.matmul") == (3, 3, 3 * (3 + 1))
    assert counted(toy, "blocks.1:keep.tanh") == (1, 1, 3 + 1)
    # Nothing is kept, and each op is asked all the same.
    assert counted(toy, "blocks.1:keep.exp") == (2, 1, 3 + 2)


def test_an_op_under_two_policies_counts_for_both(toy: Forecaster) -> None:
    # First pass: nine ops under the span's policy, three of them under the block's too. The span's replay, up to the
    # input of its last `sin`: five of eight, all but the matmuls, two of them under both; the block's: `tanh`.
    both = "blocks.0..2:keep.matmul+blocks.1:keep.matmul"
    assert counted(toy, both) == (5 + 1, 2, 9 + 3 + 5 + 2 + 1)
    assert counts_of_log(toy.by_fake_step(both)[1]).num_policy_ops == 9 + 3 + 5 + 2 + 1


def test_the_ops_that_run_again_are_named(toy: Forecaster) -> None:
    names = [toy.plain_log.ops[index].name for index in toy.rearranged("blocks.1").replayed]
    modules = [toy.plain_log.ops[index].module for index in toy.rearranged("blocks.1").replayed]
    assert (names, modules) == (["addmm", "tanh"], ["blocks.1.linear", "blocks.1"])


@pytest.mark.parametrize(
    "placement",
    [
        "none",
        "blocks.1",
        "blocks.0..2:each",
        "blocks.0..2:each@no-early-stop",
        "blocks.0..2",
        "blocks.0..2+blocks.1",
        "blocks.0..2+blocks.0..1+blocks.1",
        "blocks.0..2.linear:each",
        "blocks.0..2:each:keep.matmul",
        "blocks.0..2:each:keep.tanh",
        "blocks.0..2:keep.addmm/0/2",
        "blocks.0..2+blocks.1:keep.tanh",
    ],
)
def test_a_fake_steps_log_gives_the_counts_of_the_fast_way(toy: Forecaster, placement: str) -> None:
    found = toy.rearranged(placement)
    assert counts_of_log(toy.by_fake_step(placement)[1]) == ReplayCounts(
        replayed=tuple(found.replayed), num_replays=found.num_replays, num_policy_ops=found.num_policy_ops
    )


def test_a_reentrant_region_is_counted_by_its_log(toy: Forecaster) -> None:
    counts = counts_of_log(toy.by_fake_step("blocks.0..2:each@reentrant")[1])
    # There is no early stop. Ops 0 and 1, the sum of losses and the scale, lie outside.
    assert counts == ReplayCounts(replayed=(8, 9, 10, 5, 6, 7, 2, 3, 4), num_replays=3, num_policy_ops=0)
