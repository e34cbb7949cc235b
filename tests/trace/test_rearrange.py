"""The rules by which a checkpointed step follows from the plain one, each on a toy that needs it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from bench.placement import UnsupportedPlacementError
from bench.placement.types import PlacementError
from bench.spec import RecipeSpec
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError
from tests.trace.rearrange_checks import FakeToy, assert_equal_to_fake_step, forecaster_of

KIB = 1024
ROWS, WIDTH = 16, 64


class Exp(nn.Module):
    """Saves its output and nothing else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp()


class Chain(nn.Module):
    """Blocks one after another, behind a first parameter, so that gradients reach all of them."""

    def __init__(self, blocks: Sequence[nn.Module], width: int = WIDTH) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale
        for block in self.blocks:
            x = block(x)
        return x


class Mlp(nn.Module):
    def __init__(self, inner: int = 256) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, inner)
        self.down = nn.Linear(inner, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def forecaster(
    build: Callable[[], nn.Module], rows: Sequence[int] = (ROWS,), width: int = WIDTH, **options: Any
) -> Forecaster:
    return forecaster_of(FakeToy(build, lambda: [torch.randn(n, width) for n in rows], **options))


@pytest.fixture(scope="module")
def mlps() -> Forecaster:
    return forecaster(lambda: Chain([Mlp() for _ in range(4)]))


def test_the_bytes_of_a_toy_are_those_worked_out_by_hand() -> None:
    one, scalar = KIB * 4, 4
    toy = forecaster(lambda: Chain([Exp() for _ in range(4)], width=KIB), rows=(1,), width=KIB)
    plain = toy.fast("none")
    assert plain.persistent_bytes == 2 * one  # the batch and the parameter
    assert plain.retained_bytes == 4 * one + scalar  # the four outputs and the loss
    # In the last block's node its gradient is there besides, and the sum of losses, the first gradient and its share.
    assert plain.peak_allocated_bytes == plain.persistent_bytes + 5 * one + 4 * scalar
    # Each region keeps its input: the product and three outputs. The fourth output is kept by nobody.
    each = toy.fast("blocks.0..3:each@no-rng")
    assert each.retained_bytes == 4 * one + scalar
    # The span keeps the product alone, and rebuilds four outputs beside it.
    span = toy.fast("blocks.0..3@no-rng")
    assert span.retained_bytes == one + scalar
    assert span.peak_allocated_bytes == plain.peak_allocated_bytes + one
    assert (span.replay_ops, each.replay_ops) == (4, 4)
    assert span.replay_moved_bytes == 4 * 2 * one


@pytest.mark.parametrize(
    "placement",
    [
        "none",
        "blocks.0",
        "blocks.3",
        "blocks.0..3:each",
        "blocks.0..2:every.2",
        "blocks.0..3",
        "blocks.0..1+blocks.2..3",
        "blocks.0..1+blocks.0..3:each+blocks.2..3",
        "blocks.0..3+blocks.1..2",
        "blocks.0..3+blocks.0..1+blocks.0",
        "blocks.1+blocks.1.up+blocks.1.down",
        "blocks.0..3.norm:each",
        "blocks.0..3:each:keep.matmul",
        "blocks.0..3:each:keep.matmul%2",
        "blocks.0..3:each:keep.addmm/1",
        "blocks.0..3:each:keep.native_layer_norm.gelu",
        "blocks.0..3:keep.matmul%3",
        "blocks.0..3:keep.matmul+blocks.1:keep.gelu+blocks.2",
        "blocks.0..3+blocks.1:keep.matmul",
        "blocks.0..3:each@no-rng",
        "blocks.0..3:each@no-early-stop",
        "blocks.0..3@no-early-stop+blocks.1@no-early-stop@no-rng",
        "blocks.0..3:each@no-determinism-check",
    ],
)
def test_regions_spans_nesting_policies_and_options_cost_what_a_fake_step_says(
    mlps: Forecaster, placement: str
) -> None:
    assert_equal_to_fake_step(mlps, placement)


def test_a_region_that_comes_last_in_another_is_not_run_by_the_outer_replay(mlps: Forecaster) -> None:
    ops_of_a_block = mlps.fast("blocks.3@no-early-stop").replay_ops
    nested = mlps.fast("blocks.2..3+blocks.2..3:each")
    # Outer replay: block 2 alone, then it stops at the input of block 3. Inner replays stop before the last addition,
    # and `down`'s matmul saves nothing after its input.
    assert nested.replay_ops == ops_of_a_block + 2 * mlps.fast("blocks.3").replay_ops


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Mlp()
        self.other = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block(self.other(x))
        return self.block(torch.tanh(x)) @ self.other.weight


@pytest.mark.parametrize("precision", ["fp32", "bf16-autocast"])
@pytest.mark.parametrize("placement", ["block", "block.up+block.down", "block+block.up", "other"])
def test_a_block_called_twice_casts_its_weights_again_in_each_replay(precision: str, placement: str) -> None:
    assert_equal_to_fake_step(forecaster(Twice, precision=precision), placement)


def test_a_policy_on_a_block_whose_weights_were_cast_before_is_refused_as_torch_refuses_it() -> None:
    toy = forecaster(Twice, precision="bf16-autocast")
    with pytest.raises(CannotRearrangeError, match="casts weights"):
        toy.fast("block:keep.matmul")
    with pytest.raises(RuntimeError, match=r"aten\._to_copy\.default encountered during backward but not found"):
        toy.by_fake_step("block:keep.matmul")
    assert_equal_to_fake_step(forecaster(Twice), "block:keep.matmul")


@pytest.mark.parametrize("zero_grad", ["start", "end"])
@pytest.mark.parametrize("placement", ["blocks.0..2:each", "blocks.0..2", "blocks.0..1+blocks.0..1.up:each"])
def test_micro_batches_of_different_sizes_each_have_their_own_replays(zero_grad: str, placement: str) -> None:
    recipe = RecipeSpec(zero_grad=zero_grad)
    toy = forecaster(lambda: Chain([Mlp() for _ in range(3)]), rows=(32, 8), recipe=recipe)
    assert_equal_to_fake_step(toy, placement)


class Frozen(Chain):
    """Its first blocks need no gradients, so that autograd saves nothing in them."""

    def __init__(self) -> None:
        super().__init__([Mlp() for _ in range(3)])
        self.scale.requires_grad_(False)
        for parameter in self.blocks[:2].parameters():
            parameter.requires_grad_(False)


@pytest.mark.parametrize("placement", ["blocks.0..2:each", "blocks.1..2", "blocks.1..2+blocks.1"])
def test_a_frozen_region_is_never_replayed_and_keeps_nothing(placement: str) -> None:
    assert_equal_to_fake_step(forecaster(Frozen), placement)


class Square(torch.autograd.Function):
    """Keeps one tensor as autograd knows it, and one as Python does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.doubled = 2 * x
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * ctx.doubled + 0 * x


class Odd(nn.Module):
    """In-place ops, a branch that nothing needs, complex numbers, dropout, a function with tensors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(x).relu_()
        hidden.sigmoid().exp()
        spectrum = torch.fft.rfft(hidden, dim=-1)
        hidden = torch.fft.irfft(spectrum * spectrum, n=WIDTH, dim=-1)
        hidden = nn.functional.dropout(hidden, 0.5)
        return Square.apply(hidden) + x[:, :1].expand(-1, WIDTH)


@pytest.mark.filterwarnings("ignore:.*requires_grad")
@pytest.mark.parametrize(
    "placement", ["blocks.1", "blocks.0..2:each", "blocks.0..2", "blocks.0..2+blocks.1", "blocks.0..2.linear:each"]
)
def test_odd_ops_are_followed(placement: str) -> None:
    assert_equal_to_fake_step(forecaster(lambda: Chain([Odd() for _ in range(3)])), placement)


class Remembering(nn.Module):
    """The second block reads what the first made, and it is no argument of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), Reading()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        self.second.memory = [hidden.cos()]
        return self.second(hidden)


class Reading(nn.Module):
    memory: list[torch.Tensor]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * self.memory.pop()


def test_a_region_that_reads_what_is_gone_by_its_replay_is_refused() -> None:
    with pytest.raises(CannotRearrangeError, match="a replay reads a cos made outside its region"):
        forecaster(Remembering).fast("second")


class Fickle(nn.Module):
    """Decides by chance what it runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = getattr(self, "calls", random.Random(0).randrange(2)) + 1
        return x.exp() if self.calls % 2 else x.cos().sin()


def test_a_model_whose_forwards_differ_is_refused() -> None:
    toy = forecaster(lambda: Chain([Fickle()]))
    for _ in range(2):  # and is recorded once
        with pytest.raises(CannotRearrangeError, match="did not run the same ops"):
            toy.fast("blocks.0")


def test_a_reentrant_region_is_refused(mlps: Forecaster) -> None:
    with pytest.raises(CannotRearrangeError, match="reentrant"):
        mlps.fast("blocks.0@reentrant")


def test_a_restored_region_is_refused(mlps: Forecaster) -> None:
    with pytest.raises(CannotRearrangeError, match="@restore"):
        mlps.fast("blocks.0@restore")


def test_a_policy_that_keeps_views_is_refused(mlps: Forecaster) -> None:
    with pytest.raises(CannotRearrangeError, match="transpose is one"):
        mlps.fast("blocks.0:keep.transpose")


def test_a_policy_whose_kept_outputs_change_in_place_is_refused_as_torch_refuses_it() -> None:
    toy = forecaster(lambda: Chain([nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True)) for _ in range(2)]))
    with pytest.raises(CannotRearrangeError, match="changed in place"):
        toy.fast("blocks.0:keep.matmul")
    with pytest.raises(RuntimeError, match="has been mutated"):
        toy.by_fake_step("blocks.0:keep.matmul")
    assert_equal_to_fake_step(toy, "blocks.0..1:each")


def test_what_cannot_be_applied_is_refused_as_apply_refuses_it(mlps: Forecaster) -> None:
    with pytest.raises(PlacementError, match=r"blocks\.7"):
        mlps.fast("blocks.7")
    with pytest.raises(UnsupportedPlacementError, match="another order"):
        mlps.fast("blocks.2/blocks.1")


class Tapped(Chain):
    """A hook takes the outputs of inner modules out of the forward, and the loss needs them."""

    def __init__(self) -> None:
        super().__init__([Mlp() for _ in range(3)])
        self.taken: list[torch.Tensor] = []
        self.is_watching = False
        for block in self.blocks:
            block.up.register_forward_hook(self._take)

    def _take(self, _: nn.Module, __: Any, output: torch.Tensor) -> None:
        if self.is_watching:
            self.taken.append(output)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.is_watching = True
        result = super().forward(x)
        self.is_watching = False
        extra = torch.stack([taken.mean() for taken in self.taken]).sum()
        self.taken.clear()
        return result * extra


@pytest.mark.parametrize("placement", ["blocks.0..2:each", "blocks.0..1+blocks.2"])
def test_tensors_that_a_hook_takes_out_are_either_followed_or_refused(placement: str) -> None:
    toy = forecaster(Tapped)
    try:
        assert_equal_to_fake_step(toy, placement)
    except CannotRearrangeError as error:
        assert "hooks" in str(error)  # noqa: PT017  # which of the two is the peak's to say
    assert toy.forecast(placement).peak_allocated_bytes == toy.by_fake_step(placement)[0].peak_allocated_bytes
