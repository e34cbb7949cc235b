"""Proof of effect: what a placement predicts of its regions, and what is told when they do otherwise."""

import pytest
import torch
from torch import nn

from bench.placement import parse_placement
from bench.placement.applying import Applied, apply
from bench.placement.wiring import record_wiring
from bench.step.precision import PRECISIONS
from bench.worker.effect import (
    NoEffectError,
    OtherStepError,
    Prediction,
    check_effect,
    check_losses,
    check_retained,
    predict,
)


class Chain(nn.Module):
    def __init__(self, shared: bool = False, frozen: int = 0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)) for _ in range(4))
        self.unused = nn.Linear(4, 4)
        self.shared = shared
        for block in self.blocks[:frozen]:
            block.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
            if self.shared:
                x = block(x)
        return x.sum()


def applied_steps(model: nn.Module, text: str, steps: int, accumulation: int) -> tuple[Applied, object]:
    x = torch.randn(2, 4, requires_grad=True)
    placement = parse_placement(text)
    wiring = record_wiring(model, {unit for r in placement.regions for unit in r.units}, lambda: model(x))
    with apply(model, placement, wiring=wiring) as applied:
        for _ in range(steps * accumulation):
            model(x).backward()
    return applied, wiring


@pytest.mark.parametrize(
    ("text", "region", "expected"),
    [
        ("blocks.0..3:each", "blocks.0", Prediction(replays=2, entries_min=4, entries_max=4)),
        ("blocks.0..3", "blocks.0..3", Prediction(replays=2, entries_min=4, entries_max=4)),
        # Two levels: the inner region is entered in the outer replay too.
        ("blocks.0..3+blocks.0", "blocks.0", Prediction(replays=2, entries_min=6, entries_max=6)),
        # In the last unit, the outer replay may stop before it comes to the inner region.
        ("blocks.0..3+blocks.3", "blocks.3", Prediction(replays=2, entries_min=4, entries_max=6)),
        ("blocks.0..3@no-early-stop+blocks.3", "blocks.3", Prediction(replays=2, entries_min=6, entries_max=6)),
    ],
)
def test_passes_are_predicted_from_nesting_early_stop_and_micro_batches(
    text: str, region: str, expected: Prediction
) -> None:
    placement = parse_placement(text)
    x = torch.randn(2, 4)
    model = Chain()
    wiring = record_wiring(model, {unit for r in placement.regions for unit in r.units}, lambda: model(x))
    (asked,) = (each for each in placement.regions if each.units == parse_placement(region).regions[0].units)
    assert predict(placement, asked, wiring, accumulation=2) == expected


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Chain(), "none"),
        (Chain(), "blocks.0..3:each"),
        (Chain(), "blocks.0..3:each@reentrant"),
        (Chain(), "blocks.0..3+blocks.0..3:each"),
        (Chain(), "blocks.0..3+blocks.0..1+blocks.0..3:each"),
        (Chain(), "blocks.0..3@no-early-stop+blocks.0..3:each"),
        (Chain(), "blocks.0..3@reentrant+blocks.0..3:each"),
        (Chain(), "blocks.0..3@reentrant+blocks.0..1@reentrant+blocks.0@reentrant"),
        (Chain(), "blocks.0..3+blocks.0..1@reentrant+blocks.0"),
        (Chain(shared=True), "blocks.0..3:each"),
        (Chain(frozen=2), "blocks.0..3:each"),
    ],
)
def test_what_happens_is_what_was_predicted(model: nn.Module, text: str) -> None:
    applied, wiring = applied_steps(model, text, steps=2, accumulation=3)
    check_effect(applied, wiring, steps=2, accumulation=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "text", "message"),
    [
        (Chain(), "unused", "never calls unused"),
        (Chain(), "blocks.0:keep.attention", "keeps attention, and none of these ops was called"),
    ],
)
def test_no_effect_is_told(model: nn.Module, text: str, message: str) -> None:
    applied, wiring = applied_steps(model, text, steps=1, accumulation=1)
    with pytest.raises(NoEffectError, match=message):
        check_effect(applied, wiring, steps=1, accumulation=1)  # type: ignore[arg-type]


def test_a_region_replayed_more_often_than_predicted_is_an_error() -> None:
    applied, wiring = applied_steps(Chain(), "blocks.0", steps=2, accumulation=1)
    with pytest.raises(RuntimeError, match=r"blocks\.0 was entered 4 times and replayed 2 times in 1 steps"):
        check_effect(applied, wiring, steps=1, accumulation=1)  # type: ignore[arg-type]


def test_retaining_no_less_is_no_effect() -> None:
    check_retained(99, 100)
    with pytest.raises(NoEffectError, match="retains exactly what"):
        check_retained(100, 100)
    with pytest.raises(NoEffectError, match="retains 5 bytes more than"):
        check_retained(105, 100)


def test_another_loss_from_the_same_state_is_another_step() -> None:
    check_losses([2.5, 2.4000001], [2.5, 2.4], PRECISIONS["fp32"])
    check_losses([None, None], [None, None], PRECISIONS["fp32"])
    check_losses([2.5, 2.41], [2.5, 2.4], PRECISIONS["bf16-pure"])
    for losses in ([2.5, 2.41], [2.6, 2.4], [2.5, None]):
        with pytest.raises(OtherStepError, match="the replay does not train the same way"):
            check_losses(losses, [2.5, 2.4], PRECISIONS["fp32"])
