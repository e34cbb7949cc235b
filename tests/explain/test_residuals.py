"""What regions keep and what units save, counted by hand."""

from __future__ import annotations

import torch
from torch import nn

from bench.explain import read, region_residuals, unit_residuals
from bench.explain.residuals import BOUNDARY_TENSOR, KEPT_OUTPUT, RNG_STATE
from tests.explain.toys import Block, Blocks, chain_of, make_step, record

ROWS, WIDTH, INNER = 64, 32, 128
NARROW, WIDE, RNG = 4 * ROWS * WIDTH, 4 * ROWS * INNER, 5056


def three_blocks() -> Blocks:
    return Blocks(*(Block(WIDTH, INNER) for _ in range(3)))


def test_a_region_keeps_its_input_and_a_random_state() -> None:
    reading = read(record(make_step(three_blocks(), torch.randn(ROWS, WIDTH)), "blocks.1"))
    (keeps,) = region_residuals(reading).keeps
    assert [(r.role, r.bytes) for r in keeps.residuals] == [(BOUNDARY_TENSOR, NARROW), (RNG_STATE, RNG)]
    assert keeps.total_bytes == NARROW + RNG
    boundary = keeps.residuals[0]
    assert boundary.made_by is not None
    assert (boundary.made_by.op, boundary.made_by.module) == ("mm", "blocks.0.down")
    # The replay reads it, and then the backward that saved it anew.
    assert [(op.op, op.is_replay) for op in boundary.read_by] == [("mm", True), ("mm", False)]


def test_a_batch_that_a_region_is_given_is_there_anyway() -> None:
    reading = read(record(make_step(three_blocks(), torch.randn(ROWS, WIDTH)), "blocks.0@no-rng"))
    (keeps,) = region_residuals(reading).keeps
    assert [r.is_there_anyway for r in keeps.residuals] == [True]
    assert keeps.total_bytes == 0


def test_a_policy_keeps_outputs_inside_the_region() -> None:
    reading = read(record(make_step(three_blocks(), torch.randn(ROWS, WIDTH)), "blocks.1:keep.matmul@no-rng"))
    (keeps,) = region_residuals(reading).keeps
    kept = {r.role: r.bytes for r in keeps.residuals}
    # `up`'s output is kept; `down`'s is what the region hands out, and stays as the next block's input anyway.
    assert kept == {BOUNDARY_TENSOR: NARROW, KEPT_OUTPUT: WIDE}


def test_every_call_of_a_region_is_listed_by_itself() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(WIDTH, INNER)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.blocks[0](self.blocks[0](x))
            return result

    reading = read(record(make_step(Twice(), torch.randn(ROWS, WIDTH)), "blocks.0@no-rng"))
    assert [(k.call, k.total_bytes) for k in region_residuals(reading).keeps] == [(0, 0), (1, NARROW)]


def test_a_plain_unit_saves_what_its_backward_reads() -> None:
    model = three_blocks()
    reading = read(record(make_step(model, torch.randn(ROWS, WIDTH))), chain_of(model))
    residuals = unit_residuals(reading)
    first, second, third = residuals.keeps
    assert [k.owner for k in residuals.keeps] == ["blocks.0", "blocks.1", "blocks.2"]
    assert first.total_bytes == WIDE  # its input is the batch
    assert second.total_bytes == third.total_bytes == WIDE + NARROW
    made = {(r.made_by.op, r.made_by.module) for r in second.residuals if r.made_by is not None}
    assert made == {("relu", "blocks.1"), ("mm", "blocks.0.down")}
    parameters = [r.name for r in second.residuals if r.is_there_anyway]
    assert sorted(parameters) == ["blocks.1.down.weight", "blocks.1.up.weight"]


def test_what_two_units_save_is_counted_once_and_said() -> None:
    class Beside(nn.Module):
        """Both blocks take in the same tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(WIDTH, WIDTH, bias=False)
            self.blocks = nn.ModuleList([Block(WIDTH, INNER), Block(WIDTH, INNER)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            result: torch.Tensor = self.blocks[0](x) + self.blocks[1](x)
            return result

    model = Beside()
    reading = read(record(make_step(model, torch.randn(ROWS, WIDTH))), chain_of(model))
    residuals = unit_residuals(reading)
    assert [(k.total_bytes, k.shared_bytes) for k in residuals.keeps] == [(WIDE + NARROW, NARROW)] * 2
    assert residuals.total_bytes == 2 * WIDE + NARROW
    (shared,) = [r for r in residuals.keeps[0].residuals if r.shared_with]
    assert shared.shared_with == ("blocks.1",)


def test_sources_and_readers_are_in_the_listing() -> None:
    model = three_blocks()
    reading = read(record(make_step(model, torch.randn(ROWS, WIDTH))), chain_of(model))
    for keeps in unit_residuals(reading).keeps:
        for residual in keeps.residuals:
            assert residual.read_by, "saved, so something reads it"
            assert residual.is_there_anyway or (residual.made_by is not None and "toys.py:" in residual.made_by.source)
