"""A chain of small blocks whose forward moves state, or draws from outside: `moves` says what.

`norm`: BatchNorm's buffers, which @restore puts back. `outside`: numbers from a module-level iterator, which nobody can
put back. `mask`: dropout, whose mask a replay draws again. Empty: nothing.
"""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.placement.region_forward import UnitForward, in_replay
from bench.spec import ChainInfo, WorkloadSpec

SHAPE = ("sequence_length",)
NUMBERS = itertools.count(1)


class Block(nn.Module):
    def __init__(self, width: int, moves: str) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.norm = nn.BatchNorm1d(4 * width) if moves == "norm" else nn.Identity()
        self.mask = nn.Dropout(0.1 if moves == "mask" else 0.0)
        self.down = nn.Linear(4 * width, width)
        self.moves = moves

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.mask(torch.nn.functional.gelu(self.norm(self.up(x))))
        if self.moves == "outside":
            hidden = (hidden * (1.0 + 0.01 * next(NUMBERS))).sin()
        if in_replay():
            self._die_where_asked()
        return x + self.down(hidden)

    def _die_where_asked(self) -> None:
        """In a replay: killed at the first, where the environment names a file that is to mark it; ended at each with
        @restore, where it says so."""
        mark = os.environ.get("TOY_DIES_IN_REPLAY")
        if mark and not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        forward = vars(self)["forward"]
        assert isinstance(forward, UnitForward)
        if forward.region.options.restore and "TOY_ENDS_RESTORED" in os.environ:
            os._exit(3)


class Moving(nn.Module):
    def __init__(self, layers: int, width: int, moves: str, limit: int) -> None:
        super().__init__()
        self.width, self.limit = width, limit
        self.blocks = nn.ModuleList(Block(width, moves) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        is_plain = not any("forward" in vars(block) for block in self.blocks)
        if self.limit and is_plain and torch.is_grad_enabled() and len(x) > self.limit:
            raise torch.OutOfMemoryError(f"a plain step with more than {self.limit} rows does not fit")
        for block in self.blocks:
            x = block(x)
        return x


def build(
    *,
    layers: int = 4,
    width: int = 16,
    moves: str = "",
    limit: int = 0,
    heads: int = 1,
    vocabulary: int = 1,
    positions: int = 1,
    dropout: float = 0.0,
    attention: str = "",
) -> nn.Module:
    """`limit`: rows of a batch above which the plain model runs out of memory; 0 for none. The last five are GPT-2's,
    so that `model=gpt2-tiny model.target=tests.families.moving` runs it."""
    return Moving(layers, width, moves, limit).train()


def batch(model: Moving, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    return {"x": torch.randn((workload.micro_batch, model.width), generator=generator)}


def loss(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    result: torch.Tensor = model(batch["x"]).square().mean()
    return result


def chains(model: Moving) -> tuple[ChainInfo, ...]:
    return (ChainInfo(name="blocks", units=tuple(f"blocks.{index}" for index in range(len(model.blocks)))),)
