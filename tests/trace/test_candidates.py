"""Which regions are worth trying next, on toys whose answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.placement import Placement, parse_placement
from bench.spec import ChainInfo
from bench.trace.candidates import candidates, extensions
from bench.trace.forecast import Forecaster
from tests.trace.rearrange_checks import FakeToy, forecaster_of

ROWS, WIDTH = 1024, 32


class Mlp(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(x)))


class Block(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.mlp = Mlp(inner)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(torch.tanh(self.mix(x)))


CHAINS = (ChainInfo(name="blocks", units=("0", "1", "2", "3"), kinds={"mlp": ("mlp",), "mix": ("mix",)}),)


def forecaster(*inner: int) -> Forecaster:
    return forecaster_of(FakeToy(lambda: nn.Sequential(*map(Block, inner)), lambda: [torch.randn(ROWS, WIDTH)]))


@pytest.fixture(scope="module")
def even() -> Forecaster:
    return forecaster(256, 256, 256, 256)


@pytest.mark.parametrize("placement", ["none", "0", "0..1", "0..1.mlp:each", "1..2:each@reentrant"])
def test_each_says_what_a_fake_step_says_of_it(even: Forecaster, placement: str) -> None:
    before = even.by_fake_step(placement)[0]
    assert before.replay_flops is not None
    found = candidates(even, placement, CHAINS)
    assert found
    for candidate in found:
        after = even.by_fake_step(candidate.placement)[0]
        assert after.replay_flops is not None
        assert candidate.freed_bytes == before.peak_allocated_bytes - after.peak_allocated_bytes > 0
        assert candidate.replay_flops == after.replay_flops - before.replay_flops


def test_none_is_beaten_by_another_and_the_most_bytes_for_a_flop_come_first(even: Forecaster) -> None:
    found = candidates(even, "none", CHAINS)
    for one in found:
        assert not any(
            other.freed_bytes >= one.freed_bytes and other.replay_flops <= one.replay_flops
            for other in found
            if other is not one
        )
    gains = [one.freed_bytes / one.replay_flops if one.replay_flops else float("inf") for one in found]
    assert gains == sorted(gains, reverse=True)


def test_groups_of_a_kind_are_among_the_best(even: Forecaster) -> None:
    assert {"0..3.mlp:each", "0..3:each"} <= {one.region for one in candidates(even, "none", CHAINS)}


def test_units_kinds_what_is_left_and_longer_spans_are_tried_each_once() -> None:
    chains = (ChainInfo(name="blocks", units=("0", "1", "2", "3"), kinds={"mlp": ("mlp",)}),)
    tried = [
        (placement.text, Placement(new).text) for placement, new in extensions(parse_placement("0..1+0.mlp"), chains)
    ]
    assert tried == [
        ("0..1+0+0.mlp", "0"),
        ("0..1+0.mlp+1", "1"),
        ("0..1+0.mlp+2", "2"),
        ("0..1+0.mlp+3", "3"),
        ("0..1+0..3.mlp:each", "1..3.mlp:each"),
        ("0..1+0.mlp+2..3:each", "2..3:each"),
        ("0..2+0.mlp", "0..2"),
    ]


def test_the_block_in_whose_backward_the_peak_lies_frees_nothing_of_it_and_those_before_it_do() -> None:
    # Block 1 dwarfs the others; its replay would rebuild all of it just there.
    found = candidates(forecaster(64, 2048, 64, 64), "none", CHAINS)
    single = {one.region for one in found} & {"0", "1", "2", "3"}
    assert single == {"0"}


def test_there_is_nothing_to_try_where_the_peak_is_not_of_activations() -> None:
    # A batch of one row: the peak is the last gradients' coming beside all others, whatever is replayed.
    weights = forecaster_of(
        FakeToy(lambda: nn.Sequential(*(Block(512) for _ in range(4))), lambda: [torch.randn(1, WIDTH)])
    )
    assert weights.fast("0..3:each").peak_allocated_bytes >= weights.fast("none").peak_allocated_bytes
    assert candidates(weights, "none", CHAINS) == ()
