"""What replay costs, counted by hand."""

from __future__ import annotations

import pytest
import torch

from bench.explain import ReplayCost, read, replay_cost
from tests.explain.toys import Block, Blocks, make_step, record

ROWS, WIDTH, INNER = 64, 32, 128
NARROW, WIDE, WEIGHT, RNG = 4 * ROWS * WIDTH, 4 * ROWS * INNER, 4 * WIDTH * INNER, 5056
MATMUL = 2 * ROWS * WIDTH * INNER


def cost_of(placement: str, **times: float) -> ReplayCost:
    step = make_step(Blocks(Block(WIDTH, INNER), Block(WIDTH, INNER)), torch.randn(ROWS, WIDTH))
    return replay_cost(read(record(step, placement)), **times)


def test_a_plain_step_replays_nothing() -> None:
    cost = cost_of("none")
    assert (cost.replayed.flops, cost.replayed.moved_bytes, cost.replayed.num_ops) == (0, 0, 0)
    assert (cost.regions, cost.region_calls, cost.rng_saves) == ((), 0, 0)
    assert cost.flops_share == 0.0


def test_an_early_stopped_replay_runs_up_and_relu() -> None:
    cost = cost_of("blocks.0..1:each")
    assert [(r.region, r.first_passes, r.replays) for r in cost.regions] == [("blocks.0", 1, 1), ("blocks.1", 1, 1)]
    for region in cost.regions:
        assert (region.replayed.flops, region.replayed.num_ops) == (MATMUL, 2)
        assert region.replayed.moved_bytes == (NARROW + WEIGHT + WIDE) + 2 * WIDE
        assert (region.rng_saves, region.rng_bytes) == (1, RNG)
    # Forward and backward are two and four matmuls a block, less one: the batch needs no gradient.
    assert cost.step.flops == (4 + 8 - 1 + 2) * MATMUL
    assert cost.flops_share == pytest.approx(2 / 11)
    assert (cost.region_calls, cost.rng_saves, cost.rng_bytes) == (4, 2, 2 * RNG)


def test_without_early_stop_the_whole_block_runs_again() -> None:
    assert cost_of("blocks.0@no-early-stop").replayed.flops == 2 * MATMUL


def test_random_states_are_not_saved_where_they_are_not_kept() -> None:
    assert cost_of("blocks.0..1:each@no-rng").rng_saves == 0


def test_measured_times_stand_beside_what_the_flops_would_take() -> None:
    measured = cost_of("blocks.0..1:each", plain_ms=110.0, placed_ms=150.0).measured
    assert measured is not None
    assert measured.extra_ms == pytest.approx(40.0)
    assert measured.at_plain_rate_ms == pytest.approx(20.0)
    assert measured.remainder_ms == pytest.approx(20.0)
    assert measured.remainder_per_region_call_ms == pytest.approx(5.0)


def test_without_both_times_nothing_is_measured() -> None:
    assert cost_of("blocks.0", plain_ms=110.0).measured is None
