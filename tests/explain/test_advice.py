"""Each way in which a peak lies elsewhere is said by its own sentence, and by no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.explain import Advice, advise, explain, read
from bench.explain.advice import (
    ACTIVATIONS_DOMINATE,
    GRADIENTS_GATHER,
    LOSS,
    OPTIMIZER,
    PARAMETERS_DOMINATE,
    REPLAY_ITSELF,
    TEMPORARIES_DOMINATE,
)
from bench.explain.findings import EARLY_LAYERS, FRAGMENTATION, LEAKED, NOT_AT_PEAK, SAVES_NOTHING
from bench.explain.words import bytes_text
from bench.step import TrainingStep
from tests.explain.toys import (
    Block,
    Blocks,
    Crowd,
    Keeper,
    LeakyBlock,
    QuarterBlock,
    Wide,
    chain_of,
    make_step,
    measured_peak,
    record,
)


def said(step: TrainingStep, placement: str = "none", reserved_bytes: int | None = None) -> dict[str, Advice]:
    """Kind → advice, the headline first."""
    reading = read(record(step, placement), chain_of(step.model))
    advice = advise(reading, explain(reading), reserved_bytes=reserved_bytes)
    assert len({one.kind for one in advice}) == len(advice), "each is said once here"
    return {one.kind: one for one in advice}


def equal_blocks(number: int = 4, rows: int = 256) -> TrainingStep:
    return make_step(Blocks(*(Block(32, 128) for _ in range(number))), torch.randn(rows, 32))


def cross_entropy(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch), torch.arange(batch.shape[0]))


def test_a_peak_of_equal_blocks_is_activations_and_nothing_else() -> None:
    found = said(equal_blocks())
    assert list(found) == [ACTIVATIONS_DOMINATE]
    assert "activations are 58 % of the peak; no placement can save more than" in found[ACTIVATIONS_DOMINATE].text


def test_the_peak_is_the_loss() -> None:
    model = Blocks(*(Block(8, 16) for _ in range(4)), head=nn.Linear(8, 2048, bias=False))
    found = said(make_step(model, torch.randn(256, 8), loss=cross_entropy))
    assert list(found) == [LOSS]
    text = found[LOSS].text
    # Probabilities, their gradient and the logits' gradient.
    assert "the peak is the loss" in text
    assert "3 tensors of (256, 2048) float32" in text
    assert found[LOSS].evidence["largest_bytes"] == 256 * 2048 * 4
    assert "in chunks of tokens, or with a fused linear cross-entropy" in text


def test_a_loss_without_cross_entropy_is_not_told_to_fuse_it() -> None:
    model = Blocks(*(Block(8, 16) for _ in range(4)), head=nn.Linear(8, 2048, bias=False))
    found = said(make_step(model, torch.randn(256, 8)))
    assert list(found) == [LOSS]
    assert "cross-entropy" not in found[LOSS].text


def test_the_peak_is_the_optimizer() -> None:
    model = Blocks(*(Block(128, 256) for _ in range(4)))
    batch = torch.randn(16, 128)
    found = said(make_step(model, batch, make_optimizer=lambda p: torch.optim.AdamW(p, foreach=True)))
    assert list(found) == [OPTIMIZER]
    assert "the peak is the optimizer's step: _foreach_" in found[OPTIMIZER].text
    assert "fused=True it makes no temporaries" in found[OPTIMIZER].text
    parameters = 8 * 128 * 256 * 4
    assert found[OPTIMIZER].evidence["temporaries_bytes"] == pytest.approx(parameters, abs=64)


def test_parameters_dominate() -> None:
    model = Blocks(*(Block(128, 256) for _ in range(4)))
    found = said(make_step(model, torch.randn(16, 128), make_optimizer=lambda p: torch.optim.AdamW(p, fused=True)))
    assert list(found) == [PARAMETERS_DOMINATE]
    assert "of the peak; no placement can save" in found[PARAMETERS_DOMINATE].text


def test_gradients_gather_where_wide_weights_come_after_wide_activations() -> None:
    model = Blocks(*(Wide(256, times=64) for _ in range(3)), Block(256, 512), Block(256, 512))
    found = said(make_step(model, torch.randn(8, 256)))
    assert list(found) == [GRADIENTS_GATHER]
    assert found[GRADIENTS_GATHER].evidence["gradient_bytes"] == 4 * 256 * 512 * 4


def test_the_replay_of_a_long_region_is_the_peak_and_is_to_be_split() -> None:
    step = equal_blocks(6)
    found = said(step, "blocks.0..5")
    assert list(found) == [REPLAY_ITSELF]
    assert "split it: regions of fewer than 6 units" in found[REPLAY_ITSELF].text.lower()
    assert measured_peak(step, "blocks.0..2+blocks.3..5") < measured_peak(step, "blocks.0..5")


@pytest.mark.parametrize("linear", ["up", "down"])
def test_a_region_around_one_linear_saves_nothing_and_the_wider_one_is_named(linear: str) -> None:
    step = equal_blocks()
    found = said(step, f"blocks.1.{linear}")
    assert list(found) == [ACTIVATIONS_DOMINATE, SAVES_NOTHING]
    one = found[SAVES_NOTHING]
    assert one.text.startswith(f"region blocks.1.{linear} saves nothing: its input")
    assert one.text.endswith("a wider region may save, such as blocks.1.")
    # Measured: a random state more than without it; the wider region does save.
    plain = measured_peak(step)
    assert measured_peak(step, f"blocks.1.{linear}") == plain + 5056
    assert measured_peak(step, "blocks.1") < plain


def test_a_region_whose_output_its_neighbour_saves_too_saves_nothing() -> None:
    class Activated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.down = nn.ReLU(), nn.Linear(32, 32, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.down(self.act(x))
            return result

    step = make_step(Blocks(*(Activated() for _ in range(4))), torch.randn(256, 32))
    found = said(step, "blocks.1.act")
    assert "were never gone, since what follows saves them too" in found[SAVES_NOTHING].text
    assert measured_peak(step, "blocks.1.act") > measured_peak(step)


def test_the_bound_of_a_replay_holds_for_placements_that_replay_it_too() -> None:
    # In the forward of `blocks.1` there are no gradients yet; in its replay there are those of the wide block.
    model = Blocks(Block(16, 16), Crowd(16, times=64, number=64), Block(16, 4096))
    step = make_step(model, torch.randn(8, 16))
    explanation = explain(read(record(step, "blocks.1"), chain_of(model)))
    assert measured_peak(step, "blocks.1") - measured_peak(step) > explanation.removable_bytes
    assert "no placement that replays blocks.1 can save" in next(iter(said(step, "blocks.1").values())).text


class Exponential(torch.autograd.Function):
    """Keeps its output as an attribute of the ctx, where no saved-tensor hook sees it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.kept = torch.exp(x)
        return ctx.kept * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2 * ctx.kept


def test_what_a_function_keeps_on_its_ctx_stays_and_is_named_and_no_wider_region_is_advised() -> None:
    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.full((32,), 0.01))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Exponential.apply(x * self.scale)

    step = make_step(Blocks(Custom(), Custom(), Custom()), torch.randn(256, 32))
    text = said(step, "blocks.1")[SAVES_NOTHING].text
    assert text.startswith("region blocks.1 saves nothing: 32.0 KiB that its forward makes stay in spite of it")
    assert text.endswith("as on the ctx of an autograd.Function.")
    assert measured_peak(step, "blocks.1") >= measured_peak(step)


def test_a_unit_that_saves_nothing_is_told_of_the_span_with_its_neighbour() -> None:
    model = Blocks(*(nn.Linear(32, 32, bias=False) for _ in range(3)))
    step = make_step(model, torch.randn(256, 32))
    assert said(step, "blocks.2")[SAVES_NOTHING].text.endswith("a wider region may save, such as blocks.1..2.")


def test_a_replay_is_not_to_be_made_smaller_where_its_op_takes_in_all_that_is_there() -> None:
    model = Blocks(*(Block(32, 512) for _ in range(2)))
    found = said(make_step(model, torch.randn(256, 32)), "blocks.0..1:each")
    assert list(found) == [REPLAY_ITSELF]
    assert "rebuild less" not in found[REPLAY_ITSELF].text


def test_a_region_that_saves_is_not_accused() -> None:
    assert SAVES_NOTHING not in said(equal_blocks(), "blocks.0..3:each")


def test_early_layers_that_hold_most_are_pointed_at() -> None:
    model = Blocks(Block(16, 64), Block(16, 64), *(QuarterBlock(16, 64) for _ in range(6)))
    step = make_step(model, torch.randn(4096, 16))
    found = said(step)
    assert list(found) == [ACTIVATIONS_DOMINATE, EARLY_LAYERS]
    assert "3 units of 8 (blocks.0, blocks.1 and blocks.2)" in found[EARLY_LAYERS].text
    # The sweep confirms it: regions there free what regions everywhere do, within their random states.
    plain = measured_peak(step)
    freed, most = (plain - measured_peak(step, f"blocks.0..{last}:each") for last in (2, 7))
    assert freed > plain // 4
    assert abs(most - freed) <= 5 * 5056


def test_a_leaked_reference_is_named_with_its_line() -> None:
    model = Blocks(Block(32, 64), LeakyBlock(32, 64), Block(32, 64), Block(32, 64))
    found = said(make_step(model, torch.randn(256, 32)))
    assert list(found) == [ACTIVATIONS_DOMINATE, LEAKED]
    text = found[LEAKED].text
    assert text.startswith("(256, 32) float32 (32.0 KiB), made in the forward by mul in blocks.1 (")
    assert "toys.py:" in text
    assert "alive after the step and nobody reads it again" in text


def test_state_that_is_assigned_anew_each_step_is_no_leak() -> None:
    class RunningMean(Block):
        mean: torch.Tensor

        def __init__(self, width: int, inner: int) -> None:
            super().__init__(width, inner)
            self.register_buffer("mean", torch.zeros(width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = 0.9 * self.mean + x.detach().mean(0)
            return super().forward(x)

    assert LEAKED not in said(make_step(Blocks(RunningMean(32, 64), Block(32, 64)), torch.randn(256, 32)))


def test_what_is_kept_from_step_to_step_and_never_read_is_a_leak() -> None:
    class Remembers(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = x.detach() * 2
            return super().forward(x)

    assert LEAKED in said(make_step(Blocks(Remembers(32, 64), Block(32, 64)), torch.randn(256, 32)))


def test_a_leak_counts_as_nothing_that_a_placement_could_remove() -> None:
    sound = Blocks(Block(32, 64), Block(32, 64))
    leaky = Blocks(Block(32, 64), LeakyBlock(32, 64))
    readings = [read(record(make_step(m, torch.randn(256, 32))), chain_of(m)) for m in (sound, leaky)]
    without, with_leak = (explain(reading) for reading in readings)
    assert with_leak.activation_bytes == without.activation_bytes + 256 * 32 * 4
    assert with_leak.removable_bytes == without.removable_bytes


def test_a_unit_whose_tensors_are_gone_at_the_peak_saves_nothing_said_and_measured() -> None:
    model = Blocks(Block(16, 32), Crowd(16, times=8, number=8), Keeper(16, times=16), Block(16, 32))
    step = make_step(model, torch.randn(256, 16))
    found = said(step)
    assert list(found) == [TEMPORARIES_DOMINATE, NOT_AT_PEAK]
    assert found[NOT_AT_PEAK].evidence["unit"] == "blocks.2"
    assert "none of it at the peak: replaying it saves nothing" in found[NOT_AT_PEAK].text
    assert measured_peak(step, "blocks.2") == measured_peak(step)


def test_what_the_allocator_keeps_beyond_the_peak_is_said_where_it_is_much() -> None:
    step = equal_blocks()
    peak = record(step).peak()[0]
    assert FRAGMENTATION not in said(step, reserved_bytes=peak + peak // 20)
    found = said(step, reserved_bytes=peak + peak // 2)
    assert f"{bytes_text(peak // 2)} more than is allocated at the peak" in found[FRAGMENTATION].text
