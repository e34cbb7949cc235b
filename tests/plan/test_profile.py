"""Bytes of a toy's units, worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn

from bench.plan.costs import OpCosts
from bench.plan.profile import StepProfile, UnitProfile, profile_step
from bench.spec import ChainInfo, RecipeSpec
from bench.trace.forecast import Forecaster
from tests.trace.rearrange_checks import FakeToy, forecaster_of

ROWS, WIDTH = 16, 64
ACTIVATION = 4 * ROWS * WIDTH
WEIGHT, BIAS = 4 * WIDTH * WIDTH, 4 * WIDTH
CHAIN = ChainInfo(name="blocks", units=("blocks.0", "blocks.1", "blocks.2"))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


class Chain(nn.Module):
    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def three() -> Sequence[nn.Module]:
    return [Block() for _ in range(3)]


def made(blocks: Callable[[], Sequence[nn.Module]] = three, rows: Sequence[int] = (ROWS,)) -> Forecaster:
    recipe = RecipeSpec(zero_grad="start")
    return forecaster_of(FakeToy(lambda: Chain(blocks()), lambda: [torch.randn(n, WIDTH) for n in rows], recipe=recipe))


def costs_of(forecaster: Forecaster) -> OpCosts:
    """Op number i takes 2 ** -i ms, so that a sum of times says which ops are in it."""
    count = len(forecaster.plain_log.ops)
    return OpCosts(
        op_ms=tuple(2.0**-i for i in range(count)),
        has_flops=(False,) * count,
        region_ms=0.0,
        policy_op_ms=0.0,
        source="made up",
    )


def profiled(forecaster: Forecaster, chain: ChainInfo = CHAIN) -> StepProfile:
    return profile_step(forecaster, [chain], costs_of(forecaster))


@pytest.fixture(scope="module")
def plain() -> Forecaster:
    return made()


def test_a_middle_blocks_bytes_are_those_worked_out_by_hand(plain: Forecaster) -> None:
    block = profiled(plain).chains[0].units[1]
    assert block.input_bytes == ACTIVATION  # the block before made it
    assert block.output_bytes == ACTIVATION
    assert block.saved_bytes == ACTIVATION  # tanh saves what it hands out; the sum before it is dropped
    assert block.forward_extra_bytes == ACTIVATION  # the sum, as tanh runs
    # Alive as it begins: its output and that one's gradient, which both go once tanh's gradient is there. Then the
    # input's gradient and the weight's are made, and the bias's beside them before tanh's gradient goes.
    assert block.backward_extra_bytes == -2 * ACTIVATION + ACTIVATION + ACTIVATION + WEIGHT + BIAS
    assert block.num_calls == 1


def test_what_lies_in_persistent_memory_is_no_input(plain: Forecaster) -> None:
    first = profiled(plain).chains[0].units[0]
    assert first.input_bytes == 0  # the batch
    assert first.saved_bytes == ACTIVATION


def test_times_are_those_of_the_units_own_ops(plain: Forecaster) -> None:
    profile, log, costs = profiled(plain), plain.plain_log, costs_of(plain)
    names = [op.name for op in log.ops]
    forward = [index for index, name in enumerate(names) if name in ("addmm", "tanh")]
    for number, unit in enumerate(profile.chains[0].units):
        assert unit.forward_ms == sum(costs.op_ms[op] for op in forward[2 * number : 2 * number + 2])
    backward = {unit.unit: round(unit.backward_ms / costs.op_ms[-1]) for unit in profile.chains[0].units}
    tanh = [index for index, name in enumerate(names) if name == "tanh_backward"]
    per_block = [tanh[1] - tanh[0], tanh[2] - tanh[1]]
    for unit, begin, count in zip(("blocks.2", "blocks.1"), tanh, per_block, strict=False):
        assert backward[unit] == round(sum(costs.op_ms[begin : begin + count]) / costs.op_ms[-1])
    assert profile.step_ms == sum(costs.op_ms)


def test_flops_are_the_forwards(plain: Forecaster) -> None:
    assert [unit.forward_flops for unit in profiled(plain).chains[0].units] == [2 * ROWS * WIDTH * WIDTH] * 3


def test_the_whole_step_is_the_forecasts(plain: Forecaster) -> None:
    profile, forecast = profiled(plain), plain.fast("none")
    assert (profile.peak_bytes, profile.persistent_bytes) == (forecast.peak_allocated_bytes, forecast.persistent_bytes)


class Views(nn.Module):
    """Hands out a view of what it was given, and keeps a product of two views of one tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.exp()
        return torch.cat([half[:, : WIDTH // 2] * half[:, WIDTH // 2 :], x[:, : WIDTH // 2]], dim=1)


def test_a_storage_that_is_saved_by_several_views_counts_once() -> None:
    block = profiled(made(lambda: [Block(), Views(), Block()])).chains[0].units[1]
    # `exp`'s result, saved by itself and by the product of its halves; and the output, which the next block saves. The
    # product of half the size is copied into the output and dropped.
    assert block.saved_bytes == 2 * ACTIVATION
    assert block.output_bytes == ACTIVATION
    assert block.forward_extra_bytes == ACTIVATION // 2


def first_and_one_twice() -> Sequence[nn.Module]:
    shared = Block()
    return [Block(), shared, shared]


def test_a_shared_block_has_the_sums_of_its_calls(plain: Forecaster) -> None:
    unit = profiled(made(first_and_one_twice), ChainInfo(name="blocks", units=("blocks.1",))).chains[0].units[0]
    alone = profiled(plain).chains[0].units[1]
    assert unit.num_calls == 2
    assert (unit.input_bytes, unit.saved_bytes) == (2 * alone.input_bytes, 2 * alone.saved_bytes)
    assert unit.forward_flops == 2 * 2 * ROWS * WIDTH * WIDTH


def test_of_several_micro_batches_the_first_is_taken(plain: Forecaster) -> None:
    unit = profiled(made(rows=(ROWS, 4 * ROWS))).chains[0].units[1]
    alone = profiled(plain).chains[0].units[1]
    for field in ("input_bytes", "output_bytes", "saved_bytes", "forward_extra_bytes", "forward_flops"):
        assert getattr(unit, field) == getattr(alone, field)


def test_a_unit_that_is_not_called_is_an_error_that_names_it(plain: Forecaster) -> None:
    with pytest.raises(ValueError, match=r"blocks\.9 of chain blocks is not called"):
        profiled(plain, ChainInfo(name="blocks", units=("blocks.9",)))


def test_costs_of_another_step_are_refused(plain: Forecaster) -> None:
    wrong = dataclasses.replace(costs_of(plain), op_ms=(1.0,))
    with pytest.raises(ValueError, match="costs of 1 ops for the"):
        profile_step(plain, [CHAIN], wrong)


def test_backwards_ops_belong_to_the_same_modules_as_in_a_step_without_hooks(plain: Forecaster) -> None:
    unhooked = plain.by_fake_step("none")[1]
    assert [(op.name.rstrip("_"), op.module) for op in plain.plain_log.ops] == [
        (op.name.rstrip("_"), op.module) for op in unhooked.ops
    ]


def test_units_are_in_forward_order_and_know_their_chain(plain: Forecaster) -> None:
    units: tuple[UnitProfile, ...] = profiled(plain).chains[0].units
    assert [(unit.unit, unit.chain) for unit in units] == [(name, "blocks") for name in CHAIN.units]
