"""The high-water mark explained: when it is, what is there, since when, who keeps it, and what is not there."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from bench.explain import PeakExplanation, explain, read
from bench.explain.tensors import NOBODY, TensorEntry
from bench.spec.mapping import from_mapping, to_mapping
from bench.trace.categories import BOUNDARY, GRADIENTS, OF_BACKWARD, OF_FORWARD, OF_REPLAY, SAVED, TEMPORARY
from tests.explain.toys import Block, Blocks, Crowd, Keeper, LeakyBlock, chain_of, make_step, measured_peak, record

ROWS, WIDTH, INNER = 64, 32, 128
NARROW, WIDE, WEIGHT = 4 * ROWS * WIDTH, 4 * ROWS * INNER, 4 * WIDTH * INNER


def explained(model: nn.Module, batch: torch.Tensor, placement: str = "none") -> PeakExplanation:
    return explain(read(record(make_step(model, batch), placement), chain_of(model)))


def two_blocks(placement: str = "none") -> PeakExplanation:
    return explained(Blocks(Block(WIDTH, INNER), Block(WIDTH, INNER)), torch.randn(ROWS, WIDTH), placement)


def made_by(explanation: PeakExplanation, op: str, module: str) -> list[TensorEntry]:
    return [
        t for t in explanation.tensors if t.made_by is not None and (t.made_by.op, t.made_by.module) == (op, module)
    ]


def test_the_moment_names_phase_op_module_and_line() -> None:
    moment = two_blocks().moment
    assert moment.phase == "backward"
    assert moment.is_running
    assert moment.op is not None
    assert (moment.op.op, moment.op.backward_of) == ("threshold_backward", "relu")
    assert moment.op.module == "blocks.1"
    assert moment.op.source.startswith("tests/explain/toys.py:")
    assert moment.allocated is not None
    assert moment.allocated.bytes == WIDE


def test_every_tensor_says_who_made_it_since_when_and_who_keeps_it() -> None:
    explanation = two_blocks()
    (saved,) = made_by(explanation, "relu", "blocks.0")
    assert (saved.category, saved.kind, saved.bytes, saved.since) == (SAVED, OF_FORWARD, WIDE, "forward")
    # The weight's gradient of `down` reads it, and then the ReLU's backward, which lets it go.
    assert [(op.op, op.module) for op in saved.kept_by] == [("mm", "blocks.0.down"), ("threshold_backward", "blocks.0")]
    assert saved.holder == "relu's backward in blocks.0"
    (gradient,) = [t for t in explanation.tensors if t.category == GRADIENTS]
    assert (gradient.name, gradient.module) == ("blocks.1.down.weight", "blocks.1.down")
    (on_its_way,) = made_by(explanation, "threshold_backward", "blocks.1")
    assert (on_its_way.category, on_its_way.kind, on_its_way.since) == (TEMPORARY, OF_BACKWARD, "backward")


def test_a_rebuilt_tensor_says_which_replay_made_it() -> None:
    explanation = two_blocks("blocks.0..1:each")
    (rebuilt,) = made_by(explanation, "relu", "blocks.0")
    assert (rebuilt.kind, rebuilt.since) == (OF_REPLAY, "replay of blocks.0")


def test_a_boundary_says_which_region_keeps_it() -> None:
    explanation = explained(Blocks(*(Block(WIDTH, INNER) for _ in range(4))), torch.randn(4 * ROWS, WIDTH), "blocks.1")
    (boundary,) = [t for t in explanation.tensors if t.category == BOUNDARY]
    assert (boundary.module, boundary.bytes, boundary.holder) == ("blocks.0.down", 4 * NARROW, "region blocks.1")


def test_what_nobody_reads_again_says_so() -> None:
    model = Blocks(Block(WIDTH, INNER), LeakyBlock(WIDTH, INNER))
    (kept,) = made_by(explained(model, torch.randn(ROWS, WIDTH)), "mul", "blocks.1")
    assert kept.kept_by == ()
    assert kept.holder == f"{NOBODY}; alive after the step"


def test_tensors_come_largest_first_and_equal_layers_together() -> None:
    explanation = explained(Blocks(*(Block(WIDTH, INNER) for _ in range(4))), torch.randn(ROWS, WIDTH))
    sizes = [t.bytes for t in explanation.tensors]
    assert sizes == sorted(sizes, reverse=True)
    # The last block's is about to be read, and kept by the same op; so all four are one group.
    (group,) = [g for g in explanation.groups if g.op == "relu"]
    assert (group.module, group.num_tensors, group.bytes) == ("blocks.0..3", 4, 4 * WIDE)
    assert group.holder == "relu's backward in blocks.0..3"


def test_equal_layers_are_one_row_of_the_module_tree() -> None:
    explanation = explained(Blocks(*(Block(WIDTH, INNER) for _ in range(4))), torch.randn(ROWS, WIDTH))
    rows = {row.module: row for row in explanation.modules}
    # Weights, the ReLU's output, and what is handed out, which the next block takes in. The last block is in backward.
    assert (rows["blocks.0..2"].num_modules, rows["blocks.0..2"].bytes) == (3, 3 * (2 * WEIGHT + WIDE + NARROW))
    assert rows["blocks"].bytes == rows["blocks.0..2"].bytes + rows["blocks.3"].bytes


def test_no_placement_can_remove_what_the_running_op_takes_in() -> None:
    explanation = two_blocks()
    # Saved are two ReLU outputs and what block 0 handed out; the ReLU's backward in block 1 reads its own output.
    assert explanation.activation_bytes == 2 * WIDE + NARROW + 4
    assert explanation.removable_bytes == WIDE + NARROW
    assert {unit.unit: unit.removable_bytes for unit in explanation.units} == {"blocks.0": WIDE + NARROW, "blocks.1": 0}


@pytest.mark.parametrize("placement", ["blocks.0", "blocks.0..3:each", "blocks.0..3", "blocks.0..1+blocks.2..3"])
def test_no_placement_saves_more_than_is_said(placement: str) -> None:
    step = make_step(Blocks(*(Block(WIDTH, INNER) for _ in range(4))), torch.randn(ROWS, WIDTH))
    plain = explain(read(record(step), chain_of(step.model)))
    assert plain.peak_bytes - measured_peak(step, placement) <= plain.removable_bytes


def test_what_a_module_beside_the_chains_keeps_counts_as_removable() -> None:
    class WithStem(Blocks):
        def __init__(self) -> None:
            super().__init__(Block(WIDTH, 2 * INNER))
            self.stem = nn.Sequential(Block(WIDTH, INNER))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(self.stem(x))

    step = make_step(WithStem(), torch.randn(ROWS, WIDTH))
    plain = explain(read(record(step), chain_of(step.model)))
    saved = plain.peak_bytes - measured_peak(step, "stem")
    assert saved > sum(unit.removable_bytes for unit in plain.units)
    assert saved <= plain.removable_bytes


def test_the_largest_tensor_ranks_last_where_it_is_dead_at_the_peak() -> None:
    model = Blocks(Block(16, 32), Crowd(16, times=8, number=8), Keeper(16, times=16), Block(16, 32))
    step = make_step(model, torch.randn(256, 16))
    log = record(step)
    explanation = explain(read(log, chain_of(model)))
    largest = max(log.storages, key=lambda s: s.size_bytes)
    assert largest.op >= 0
    assert log.ops[largest.op].module.startswith("blocks.2")
    assert largest.size_bytes > max(t.bytes for t in explanation.tensors)
    last = explanation.units[-1]
    assert (last.unit, last.at_peak_bytes) == ("blocks.2", 0)
    assert last.saved_bytes == max(unit.saved_bytes for unit in explanation.units)
    assert measured_peak(step, "blocks.2") == measured_peak(step) == explanation.peak_bytes


def test_each_micro_batch_of_an_accumulated_step_is_told_apart() -> None:
    model = Blocks(Block(WIDTH, INNER), Block(WIDTH, INNER))
    step = make_step(model, torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
    explanation = explain(read(record(step), chain_of(model)))
    # All gradients of the first micro-batch are there when the second comes to the same op.
    assert explanation.moment.micro_batch == 1
    assert explanation.bytes_of(GRADIENTS) == 4 * WEIGHT
    assert explanation.peak_bytes == measured_peak(step)


def test_an_explanation_survives_json() -> None:
    explanation = two_blocks("blocks.0..1:each")
    data = json.loads(json.dumps(to_mapping(explanation)))
    assert from_mapping(PeakExplanation, data) == explanation
