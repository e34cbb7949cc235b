"""Applying a placement: what stays as it was, and what is refused."""

import pytest
import torch
from torch import nn

from bench.placement import PlacementError
from bench.placement.apply import UnsupportedPlacementError, apply, undo
from bench.placement.span import WiringChangedError
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


def test_recording_puts_buffers_and_rng_back() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    x = torch.randn(8, 4)
    before = [buffer.clone() for buffer in model.buffers()], torch.get_rng_state()
    apply(model, "0..2", forward=lambda: model(x))
    assert all(torch.equal(a, b) for a, b in zip(before[0], model.buffers(), strict=True))
    assert torch.equal(before[1], torch.get_rng_state())
