"""Two placements: what is gone from the peak, what was let go for nothing, and what is there instead."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from bench.explain import Comparison, compare
from bench.explain.identity import identities
from bench.explain.reading import read
from bench.trace.categories import GRADIENTS, RANDOM_STATE, SAVED
from tests.explain.toys import Block, Blocks, Crowd, Keeper, chain_of, make_step, record

ROWS, WIDTH, INNER = 64, 32, 128
NARROW, WIDE, WEIGHT, RNG = 4 * ROWS * WIDTH, 4 * ROWS * INNER, 4 * WIDTH * INNER, 5056


def compared(first: str, second: str, number: int = 2) -> Comparison:
    model = Blocks(*(Block(WIDTH, INNER) for _ in range(number)))
    step = make_step(model, torch.randn(ROWS, WIDTH))
    return compare(record(step, first), record(step, second), chain_of(model))


def test_a_step_compared_with_itself_differs_in_nothing() -> None:
    same = compared("none", "none")
    assert (same.gone.bytes, same.new.bytes, same.let_go_elsewhere.bytes) == (0, 0, 0)
    assert same.text.startswith("The peaks are equal")


def test_what_is_gone_and_what_is_new_make_the_difference_of_the_peaks() -> None:
    both = compared("none", "blocks.0..1:each")
    # Gone: block 1's ReLU output and the two gradients on their way in it, and what block 0 had handed out.
    assert both.gone.bytes == 3 * WIDE + NARROW
    # New: the same two gradients of block 0, two more weights' gradients, the random state of block 0. Block 0's ReLU
    # output is rebuilt, so it is not new.
    assert both.new.bytes == 2 * WIDE + 2 * WEIGHT + RNG
    assert both.second_peak_bytes == both.first_peak_bytes - both.gone.bytes + both.new.bytes
    kinds = {one.category for one in both.new.tensors}
    assert {GRADIENTS, RANDOM_STATE} <= kinds
    assert SAVED not in kinds


def test_differences_are_listed_by_module() -> None:
    both = compared("none", "blocks.0..1:each")
    rows = {row.module: row.bytes for row in both.gone.modules}
    assert rows["blocks.0"] == NARROW
    assert rows["blocks.1"] == 3 * WIDE
    assert sum(row.bytes for row in both.gone.modules if row.depth == 0) == both.gone.bytes


def test_what_was_let_go_away_from_the_peak_bought_nothing() -> None:
    model = Blocks(Block(16, 32), Crowd(16, times=8, number=8), Keeper(16, times=16), Block(16, 32))
    step = make_step(model, torch.randn(256, 16))
    both = compare(record(step), record(step, "blocks.2"), chain_of(model))
    assert both.first_peak_bytes == both.second_peak_bytes
    assert (both.gone.bytes, both.new.bytes) == (0, 0)
    (keeper,) = both.let_go_elsewhere.tensors
    assert keeper.bytes == 256 * 16 * 16 * 4
    assert "that bought nothing" in both.text


@pytest.mark.parametrize("placement", ["blocks.0..1:each", "blocks.0..1", "blocks.0+blocks.0.up", "blocks.0.down"])
def test_a_rebuilt_tensor_is_the_one_that_it_stands_for(placement: str) -> None:
    model = Blocks(Block(WIDTH, INNER), Block(WIDTH, INNER))
    step = make_step(model, torch.randn(ROWS, WIDTH))
    plain, placed = read(record(step)), read(record(step, placement))
    names = identities(plain)
    seen = [name for name, s in zip(names, plain.log.storages, strict=True) if s.shape is not None and s.op >= 0]
    assert len(set(seen)) == len(seen), "each tensor of a plain step has a name of its own"
    replayed = [
        name
        for name, storage in zip(identities(placed), placed.log.storages, strict=True)
        if storage.op >= 0 and storage.shape is not None and placed.is_replayed(placed.log.ops[storage.op])
    ]
    assert set(replayed) <= set(names)


def test_logs_of_two_models_are_not_compared() -> None:
    log = record(make_step(Blocks(Block(WIDTH, INNER)), torch.randn(ROWS, WIDTH)))
    with pytest.raises(ValueError, match="two placements of one model on one device"):
        compare(log, dataclasses.replace(log, model="another"))
