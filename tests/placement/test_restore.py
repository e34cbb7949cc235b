"""@restore: state that a forward moves is moved once, whatever the kind of state and however the region is replayed."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from bench.placement.applying import apply, undo
from bench.placement.region_forward import in_replay
from tests.placement.moving_units import KINDS, Blocks, D, Moving, seeded, state_of

EACH = "blocks.0..1:each"
STEPS = 3
BATCH = 16

Seen = dict[str, Any]


def one_batch(model: nn.Module) -> None:
    model(torch.randn(BATCH, D)).backward()


def two_micro_batches(model: nn.Module) -> None:
    for _ in range(2):
        one_batch(model)


def two_forwards_then_backward(model: nn.Module) -> None:
    losses = [model(torch.randn(BATCH, D)) for _ in range(2)]
    for loss in losses:
        loss.backward()


def two_backwards(model: nn.Module) -> None:
    loss = model(torch.randn(BATCH, D))
    loss.backward(retain_graph=True)
    loss.backward()


def train(model: nn.Module, step: Callable[[nn.Module], None] = one_batch) -> Seen:
    """Everything that `STEPS` optimizer steps leave behind, gradients of each of them included."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seeded()
    seen: Seen = {}
    for number in range(STEPS):
        step(model)
        seen |= {f"gradient {number} {n}": p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        optimizer.zero_grad()
    seen |= {f"parameter {n}": p.detach().clone() for n, p in model.named_parameters()}
    assert all(value.isfinite().all() for value in seen.values())
    return seen | state_of(model)


def differing(seen: Seen, plain: Seen) -> list[str]:
    assert seen.keys() == plain.keys()

    def is_same(name: str) -> bool:
        a, b = seen[name], plain[name]
        return torch.equal(a, b) if isinstance(a, torch.Tensor) else bool(a == b)

    return [name for name in plain if not is_same(name)]


def placed(model: nn.Module, text: str, step: Callable[[nn.Module], None] = one_batch) -> Seen:
    with apply(model, text, forward=lambda: model(torch.randn(BATCH, D))):
        return train(model, step)


@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_without_it_is_another_step(kind: str) -> None:
    assert differing(placed(Blocks(kind), EACH), train(Blocks(kind)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    [
        f"{EACH}@restore",
        f"{EACH}@no-early-stop@restore",
        f"{EACH}:keep.matmul@restore",
        f"{EACH}:keep.clone.mean@restore",  # copies are made outside the policy, so they are none of its calls
        "blocks.1@reentrant@restore",  # the first block's input needs no gradient
    ],
)
def test_the_step_is_the_plain_one(kind: str, text: str) -> None:
    assert differing(placed(Blocks(kind), text), train(Blocks(kind))) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["blocks.0..1@restore", f"blocks.0..1@restore+{EACH}@restore"])
def test_spans_and_nested_regions_move_state_once(kind: str, text: str) -> None:
    assert differing(placed(Blocks(kind), text), train(Blocks(kind))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_region_inside_another_moves_state_once(kind: str) -> None:
    inner = "norm" if kind == "BatchNorm" else "layer"
    text = f"{EACH}@restore+blocks.0..1.{inner}:each@restore"
    assert differing(placed(Blocks(kind), text), train(Blocks(kind))) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [two_micro_batches, two_forwards_then_backward, two_backwards])
def test_each_call_of_a_region_is_replayed_from_its_own_state(kind: str, step: Callable[[nn.Module], None]) -> None:
    assert differing(placed(Blocks(kind), f"{EACH}@restore", step), train(Blocks(kind), step)) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", ["@restore", "@no-early-stop@restore"])
def test_a_block_called_twice_a_step_has_right_gradients(kind: str, options: str) -> None:
    plain = train(Blocks(kind, num_calls=2))
    assert differing(placed(Blocks(kind, num_calls=2), EACH + options), plain) == []


class Failing(Moving):
    """Fails in the middle of a replay, when its state has moved."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.word = ""
        self.fails = True

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.word += "x"
        if self.fails and in_replay():
            raise ZeroDivisionError
        return self.calls.clone()


def test_a_replay_that_fails_leaves_state_as_it_was() -> None:
    model = nn.ModuleDict({"unit": Failing()})
    unit = model["unit"]
    with apply(model, "unit@restore"):
        loss = unit(torch.ones(2, D)).sum()
        buffer = unit.calls
        with pytest.raises(ZeroDivisionError):
            loss.backward()
        assert unit.calls is buffer
        assert (unit.calls.item(), unit.word) == (1, "x")
        unit.fails = False
        unit(torch.ones(2, D)).sum().backward()
        assert (unit.calls.item(), unit.word) == (2, "xx")


def test_the_buffer_object_stays_the_plain_one() -> None:
    model = Blocks("BatchNorm")
    before = dict(model.named_buffers())
    placed(model, f"{EACH}@restore")
    assert all(buffer is before[name] for name, buffer in model.named_buffers())
    assert list(model.state_dict()) == list(Blocks("BatchNorm").state_dict())


def test_what_the_loop_changes_before_backward_stays_changed() -> None:
    model = Blocks("attributes")
    with apply(model, f"{EACH}@restore"):
        loss = model(torch.randn(BATCH, D))
        model.blocks[0].total = 0.0  # as a loop reads and clears an auxiliary loss
        loss.backward()
        assert model.blocks[0].total == 0.0


class Source:
    """Hands out the next batch."""

    def __init__(self) -> None:
        self.position = 0

    def next(self) -> float:
        self.position += 1
        return float(self.position)


class Reader(Moving):
    def __init__(self) -> None:
        super().__init__()
        self.source = Source()

    def scale(self, x: torch.Tensor) -> float:
        return self.source.next()


def test_data_that_a_forward_draws_is_not_put_back() -> None:
    model = nn.ModuleDict({"unit": Reader()})
    with apply(model, "unit@restore"):
        model["unit"](torch.ones(2, D)).sum().backward()
    assert model["unit"].source.position == 2


class Sized(Moving):
    """Its buffers have shapes of their own, so that copies of them can be counted."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(11, 7))
        self.fixed = nn.Module()
        self.fixed.register_buffer("mask", torch.ones(13, 5))

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        self.table.add_(1)
        return self.table.mean() * self.fixed.mask.mean()


def num_alive(shape: tuple[int, ...]) -> int:
    gc.collect()
    return sum(type(o) is torch.Tensor and tuple(o.shape) == shape for o in gc.get_objects())


def test_only_what_the_first_pass_moved_is_kept_and_only_until_backward() -> None:
    model = nn.ModuleDict({"unit": Sized()})
    moved, unmoved = num_alive((11, 7)), num_alive((13, 5))
    with apply(model, "unit@restore"):
        loss = sum(model["unit"](torch.ones(2, D)).sum() for _ in range(3))
        assert num_alive((11, 7)) - moved == 3
        assert num_alive((13, 5)) - unmoved == 0
        loss.backward()
        del loss
        assert num_alive((11, 7)) - moved == 0


class Remembering(Moving):
    def __init__(self) -> None:
        super().__init__()
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = super().forward(x)
        return self.last

    def scale(self, x: torch.Tensor) -> float:
        return 1.0


def test_forwards_without_a_backward_hold_no_chain_of_earlier_graphs() -> None:
    model = nn.ModuleDict({"unit": Remembering()})
    with apply(model, "unit@restore"):
        for number in range(6):
            model["unit"](torch.ones(3, D))
            if number == 2:
                early = num_alive((3, D))
        assert num_alive((3, D)) == early


def test_a_restored_model_can_be_copied_and_pickled() -> None:
    plain = train(Blocks("BatchNorm"))
    model = Blocks("BatchNorm")
    apply(model, f"{EACH}@restore")
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    untouched = state_of(model)
    for twin in twins:
        assert differing(train(twin), plain) == []
        undo(twin)
    buffers = [name for name in untouched if name.startswith("buffer")]
    assert all(torch.equal(state_of(model)[name], untouched[name]) for name in buffers)


def test_dropout_is_left_to_the_checkpoint() -> None:
    def build() -> nn.Module:
        model = Blocks("BatchNorm")
        for block in model.blocks:
            block.norm = nn.Sequential(nn.BatchNorm1d(D), nn.Dropout(0.5))
        return model

    plain = train(build())
    assert differing(placed(build(), f"{EACH}@restore"), plain) == []
    without = differing(placed(build(), f"{EACH}@no-rng@restore"), plain)
    assert any(name.startswith("gradient 0") for name in without)


@pytest.mark.parametrize("kind", KINDS)
def test_seeing_how_a_span_is_wired_leaves_no_trace(kind: str) -> None:
    model = Blocks(kind)
    seeded()
    before, buffers = state_of(model), dict(model.named_buffers())
    apply(model, "blocks.0..1", forward=lambda: model(torch.randn(BATCH, D)))
    undo(model)
    assert differing(state_of(model), before) == []
    assert all(buffer is buffers[name] for name, buffer in model.named_buffers())
