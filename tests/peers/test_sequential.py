"""Every k-th block and `checkpoint_sequential`."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential as torchs_own

from bench.peers.peer import PeerRefusedError
from bench.peers.sequential import checkpoint_sequential, every
from bench.spec import ChainInfo
from bench.trace.log import StepLog
from tests.trace.toys import recorded, toy_step

BLOCKS = 7


def chain(name: str, count: int) -> ChainInfo:
    return ChainInfo(name=name, units=tuple(f"{name}.{index}" for index in range(count)))


class Stack(nn.Module):
    def __init__(self, segments: int | None) -> None:
        """segments: of torch's own checkpoint_sequential; None for a plain forward."""
        super().__init__()
        self.h = nn.Sequential(*(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8)) for _ in range(BLOCKS)))
        self.segments = segments

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.segments is None:
            for block in self.h:
                x = block(x)
            return x
        return torchs_own(self.h, self.segments, x, use_reentrant=False)


def log_of(segments: int | None, placement: str) -> StepLog:
    torch.manual_seed(0)
    units = [f"h.{index}" for index in range(BLOCKS)] if segments is None else []
    return recorded(toy_step(Stack(segments), [torch.randn(64, 8)]), placement, *units)


@pytest.mark.parametrize("segments", [2, 3, 7])
def test_it_is_torchs_own_to_the_byte_and_op(segments: int) -> None:
    placement = checkpoint_sequential([chain("h", BLOCKS)], segments)
    ours, own = log_of(None, placement.text), log_of(segments, "none")
    assert [op.name for op in ours.ops] == [op.name for op in own.ops]
    assert ours.peak() == own.peak()


def test_segments_are_n_over_s_units_and_the_last_takes_the_rest_and_is_plain() -> None:
    assert checkpoint_sequential([chain("h", 12)], 3).text == "h.0..3+h.4..7"
    assert checkpoint_sequential([chain("h", 11)], 4).text == "h.0..1+h.2..3+h.4..5", "units 6 to 10 are plain"
    assert checkpoint_sequential([chain("h", 12)], "sqrt").text == "h.0..3+h.4..7"


def test_chains_are_one_list_and_a_segment_is_cut_where_one_ends() -> None:
    chains = [chain("encoder", 3), chain("decoder", 5)]
    assert checkpoint_sequential(chains, 2).text == "decoder.0+encoder.0..2"
    assert every(chains, 2).text == "decoder.1+decoder.3+encoder.0+encoder.2"


@pytest.mark.parametrize(("count", "segments"), [(3, 4), (12, 1), (1, "sqrt")])
def test_more_segments_than_units_or_one_alone_are_refused(count: int, segments: int | str) -> None:
    with pytest.raises(PeerRefusedError, match=f"of {count} units"):
        checkpoint_sequential([chain("h", count)], segments)
