"""Applying a placement: what stays as it was, and what is refused."""

import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from bench.placement import PlacementError
from bench.placement.applying import UnsupportedPlacementError, apply, undo
from bench.placement.errors import WiringChangedError
from tests.tiny_models import GPT2

EACH = "transformer.h.0..5:each"
SPANS = "transformer.h.0..2+transformer.h.3..5"


@pytest.mark.parametrize("text", [EACH, SPANS, "transformer.h.0..5.mlp:each"])
def test_names_keys_and_order_are_those_of_the_plain_model(text: str) -> None:
    model = GPT2.build()

    def names() -> list[list[str]]:
        return [
            list(model.state_dict()),
            [name for name, _ in model.named_parameters()],
            [name for name, _ in model.named_modules()],
            [name for name, _ in model.named_buffers()],
        ]

    before = names()
    with apply(model, text, forward=GPT2.loss(model)):
        assert names() == before
    assert names() == before


def test_undo_leaves_no_trace() -> None:
    model = GPT2.build()
    before = [dict(vars(module)) for module in model.modules()]
    apply(model, EACH)
    undo(model)
    assert [dict(vars(module)) for module in model.modules()] == before


def test_undo_gives_back_a_forward_of_the_instance() -> None:
    model = GPT2.build()
    block = model.transformer.h[0]  # type: ignore[union-attr, index]
    own = block.forward
    block.forward = own
    with apply(model, EACH):
        assert block.forward is not own
    assert vars(block)["forward"] is own


@pytest.mark.parametrize("text", [EACH, SPANS])
def test_output_hidden_states_are_those_of_the_plain_model(text: str) -> None:
    model = GPT2.build()
    tokens = torch.arange(16).reshape(1, 16)

    def hidden_states() -> tuple[torch.Tensor, ...]:
        states: tuple[torch.Tensor, ...] = model(input_ids=tokens, output_hidden_states=True).hidden_states
        return states

    plain = hidden_states()
    with apply(model, text, forward=lambda: model(input_ids=tokens)):
        placed = hidden_states()
    assert len(placed) == len(plain) == 7
    assert all(torch.equal(a, b) for a, b in zip(plain, placed, strict=True))


def test_without_gradients_nothing_is_checkpointed() -> None:
    model = GPT2.build()
    loss = GPT2.loss(model)
    with apply(model, SPANS, forward=loss) as applied, torch.no_grad():
        loss()
    assert [counts.first_passes for _, counts in applied.counts] == [0, 0]


def test_a_span_says_that_it_needs_a_forward() -> None:
    with pytest.raises(PlacementError, match="forward=lambda: model"):
        apply(GPT2.build(), SPANS)


def test_a_model_that_checkpoints_itself_is_refused() -> None:
    model = GPT2.build()
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)  # renamed in 5.x
    enable()  # type: ignore[operator]
    with pytest.raises(UnsupportedPlacementError, match="already checkpoints itself"):
        apply(model, EACH)


def test_a_second_placement_is_refused() -> None:
    model = GPT2.build()
    with apply(model, EACH), pytest.raises(UnsupportedPlacementError, match="already carries a placement"):
        apply(model, "transformer.h.0")


class Loop(nn.Module):
    """Blocks whose loop does something between them."""

    def __init__(self, between: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
            if self.between == "op":
                x = x * 2
            elif self.between == "rng":
                torch.rand(1)
            elif self.between == "in-place":
                x.add_(1)
        if self.between == "twice":
            x = self.blocks[1](x)
        return x.sum()


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        ("op", "input of blocks.1 is neither an output of an earlier unit of the span nor an input of blocks.0"),
        ("rng", "draws random numbers between blocks.0 and blocks.1"),
        ("in-place", "changes a tensor in place between blocks.0 and blocks.1"),
        ("twice", "blocks.1 is called 2 times in a forward"),
    ],
)
def test_a_span_that_cannot_be_one_region_says_why(between: str, reason: str) -> None:
    model = Loop(between)
    x = torch.ones(2, 4)
    with pytest.raises(UnsupportedPlacementError, match=reason):
        apply(model, "blocks.0..2", forward=lambda: model(x))
    with apply(model, "blocks.0..2:each"):
        model(x).backward()


def test_a_span_with_hooks_that_would_come_too_late_is_refused() -> None:
    model = Loop("nothing")
    x = torch.ones(2, 4)
    model.blocks[1].register_forward_pre_hook(lambda module, args: None)
    with pytest.raises(UnsupportedPlacementError, match=r"blocks\.1 carries hooks"):
        apply(model, "blocks.0..2", forward=lambda: model(x))


@pytest.mark.parametrize("between", ["op", "in-place"])
def test_a_loop_that_changes_after_the_record_is_caught(between: str) -> None:
    model = Loop("nothing")
    x = torch.ones(2, 4)
    with apply(model, "blocks.0..2", forward=lambda: model(x)):
        model(x).backward()
        model.between = between
        with pytest.raises(WiringChangedError, match=r"input of blocks\.1 is not what the recorded forward gave it"):
            model(x)
        model.between = "nothing"
        model(x).backward()


class Blocks(nn.Module):
    """A loop over blocks that a test brings."""

    def __init__(self, *blocks: nn.Module, autocast_at: int | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.autocast_at = autocast_at

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, block in enumerate(self.blocks):
            with torch.autocast("cpu", torch.bfloat16, enabled=index == self.autocast_at):
                x = block(x)
                x = x[0] if isinstance(x, tuple) else x
            x = x if self.autocast_at is None else x.float()
        return x.sum()


class Drifting(nn.Module):
    """Hands out a Python number, or its own input, depending on state that a training loop changes."""

    def __init__(self, hands_out: str) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.hands_out = hands_out
        self.skipped = hands_out == "input"

    def forward(self, x: torch.Tensor) -> object:
        if self.skipped:
            return x
        y = self.layer(x)
        return (y, float(y.detach().mean())) if self.hands_out == "number" else y


@pytest.mark.parametrize("hands_out", ["number", "input"])
def test_a_member_that_hands_out_something_else_than_recorded_is_caught(hands_out: str) -> None:
    model = Blocks(*[Drifting(hands_out) for _ in range(3)])
    x = torch.randn(2, 4, requires_grad=True)
    with apply(model, "blocks.0..2", forward=lambda: model(x)):
        for block in model.blocks:
            block.skipped = False
            with torch.no_grad():
                block.layer.weight.add_(1)  # type: ignore[union-attr, operator]
        with pytest.raises(WiringChangedError, match=r"output \d of blocks\.\d|structure"):
            model(x)


def test_a_loop_that_changes_autocast_between_members_is_refused() -> None:
    model = Blocks(*[nn.LayerNorm(4) for _ in range(3)], autocast_at=1)
    x = torch.randn(2, 4)
    with pytest.raises(UnsupportedPlacementError, match="under different autocast settings"):
        apply(model, "blocks.0..2", forward=lambda: model(x))


def test_a_span_goes_on_after_an_exception_in_its_middle() -> None:
    model = Loop("nothing")
    x = torch.ones(2, 4)
    plain = torch.autograd.grad(model(x), model.blocks[0].weight)[0]  # type: ignore[arg-type]
    with apply(model, "blocks.0..2", forward=lambda: model(x)):
        hook = model.blocks[1].register_forward_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(x)
        hook.remove()
        assert torch.equal(torch.autograd.grad(model(x), model.blocks[0].weight)[0], plain)  # type: ignore[arg-type]


def test_a_reentrant_region_that_would_lose_gradients_is_refused() -> None:
    model = Blocks(*[nn.Linear(4, 4) for _ in range(3)])
    with apply(model, "blocks.0@reentrant"), pytest.raises(UnsupportedPlacementError, match="leave @reentrant out"):
        model(torch.randn(2, 4))
    with apply(model, "blocks.1@reentrant"):
        model(torch.randn(2, 4)).backward()


def test_a_reentrant_region_passes_gradients_through_nested_outputs() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
            return {"x": [self.layer(x)]}

    unit = Nested()
    x = torch.randn(2, 4, requires_grad=True)
    plain = torch.autograd.grad(unit(x)["x"][0].sum(), unit.layer.weight)[0]
    model = nn.ModuleDict({"unit": unit})
    with apply(model, "unit@reentrant"):
        unit(x)["x"][0].sum().backward()
    assert unit.layer.weight.grad is not None
    assert torch.equal(unit.layer.weight.grad, plain)


def test_a_region_that_is_given_a_cache_is_refused() -> None:
    model = GPT2.build()
    model.config.use_cache = True  # type: ignore[union-attr]
    with apply(model, EACH), pytest.raises(UnsupportedPlacementError, match="use_cache=False"):
        model(input_ids=torch.arange(16).reshape(1, 16))


@pytest.mark.parametrize("text", [EACH, SPANS, f"{SPANS}+{EACH}"])
def test_an_applied_model_can_be_pickled(text: str) -> None:
    model = GPT2.build()
    apply(model, text, forward=GPT2.loss(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's TreeSpec warns of its own pickling
        twin = pickle.loads(pickle.dumps(model))
    losses = [GPT2.loss(m)() for m in (model, twin)]
    assert torch.equal(losses[0], losses[1])
    losses[1].backward()  # type: ignore[no-untyped-call]
    undo(twin)
    assert not any("forward" in vars(module) for module in twin.modules())


def test_what_was_applied_is_said_in_a_line() -> None:
    assert repr(apply(GPT2.build(), EACH)) == f"Applied({EACH!r}, 6 regions)"


def test_the_public_names_are_what_they_say() -> None:
    code = """
from bench import Placement, apply
import bench.placement.applying
from bench.placement import apply as again
assert callable(apply) and apply is again and Placement.parse("none").text == "none"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_recording_puts_buffers_and_rng_back() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    x = torch.randn(8, 4)
    before = [buffer.clone() for buffer in model.buffers()], torch.get_rng_state()
    apply(model, "0..2", forward=lambda: model(x))
    assert all(torch.equal(a, b) for a, b in zip(before[0], model.buffers(), strict=True))
    assert torch.equal(before[1], torch.get_rng_state())


def test_a_name_as_tables_shorten_it_is_answered_with_the_whole_one() -> None:
    with pytest.raises(PlacementError, match=r"did you mean transformer\.h\.0\? Tables leave out"):
        apply(nn.ModuleDict({"transformer": nn.ModuleDict({"h": nn.ModuleList([nn.Linear(2, 2)])})}), "h.0")
