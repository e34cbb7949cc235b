"""A chain of small blocks in plain torch, one of which can be made to fail while it is replayed.

It takes GPT-2's settings, so that `model=gpt2-tiny model.target=tests.families.toy +model.settings.fault=…` runs it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench.placement.region_forward import in_replay
from bench.spec import ChainInfo

FAULTY_BLOCK = 1


class Block(nn.Module):
    def __init__(self, width: int, fault: Callable[[], None] | None) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.idle = nn.Dropout(0.0)
        self.down = nn.Linear(4 * width, width)
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fault is not None and in_replay():
            self.fault()
        return x + self.down(torch.nn.functional.gelu(self.idle(self.up(x))))


class Toy(nn.Module):
    def __init__(self, layers: int, width: int, fault: str) -> None:
        super().__init__()
        self.width = width
        self.checkpoints_itself = fault == "checkpoints-itself"
        self.blocks = nn.ModuleList(
            Block(width, FAULTS.get(fault) if index == FAULTY_BLOCK else None) for index in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints_itself else block(x)
        return x


def _raise() -> None:
    raise ValueError("the block said no")


_leaked: list[torch.Tensor] = []

FAULTS: dict[str, Callable[[], Any]] = {
    "raise": _raise,
    "out-of-memory": lambda: torch.empty(1 << 50),
    "segmentation-fault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda: time.sleep(600),
    "leak": lambda: _leaked.append(torch.ones(1000)),
}


def build(
    *,
    layers: int = 4,
    width: int = 32,
    fault: str = "",
    heads: int = 1,
    vocabulary: int = 1,
    positions: int = 1,
    dropout: float = 0.0,
    attention: str = "",
) -> nn.Module:
    """Uses layers, width and fault; the others are GPT-2's."""
    return Toy(layers, width, fault).train()


def batch(model: Toy, micro_batch: int, shape: Mapping[str, int], generator: torch.Generator) -> dict[str, Any]:
    size = (micro_batch, shape.get("sequence_length", 16), model.width)
    return {"x": torch.randn(size, generator=generator)}


def loss(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    result: torch.Tensor = model(batch["x"].requires_grad_(False)).square().mean()
    return result


def chains(model: Toy) -> tuple[ChainInfo, ...]:
    units = tuple(f"blocks.{index}" for index in range(len(model.blocks)))
    return (ChainInfo(name="blocks", units=units, kinds={"linear": ("up", "down")}),)
