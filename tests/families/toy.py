"""A chain of small blocks in plain torch, one of which can be made to fail while it is replayed.

It takes GPT-2's settings, so that `model=gpt2-tiny model.target=tests.families.toy +model.settings.fault=…` runs it.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench.placement.region_forward import in_replay
from bench.spec import ChainInfo, WorkloadSpec

FAULTY_BLOCK = 1
SHAPE = ("sequence_length",)


class Block(nn.Module):
    def __init__(self, width: int, fault: Callable[[Block], Any] | None) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.idle = nn.Dropout(0.0)
        self.down = nn.Linear(4 * width, width)
        self.fault = fault
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fault is not None and in_replay():
            self.fault(self)
        return x + self.scale * self.down(torch.nn.functional.gelu(self.idle(self.up(x))))


class Toy(nn.Module):
    def __init__(self, layers: int, width: int, fault: str) -> None:
        super().__init__()
        self.width = width
        self.checkpoints_itself = fault == "checkpoints-itself"
        self.factor = math.inf if fault == "not-finite" else 1.0
        self.blocks = nn.ModuleList(
            Block(width, FAULTS.get(fault) if index == FAULTY_BLOCK else None) for index in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints_itself else block(x)
        return x * self.factor


def _raise(_block: Block) -> None:
    raise ValueError("the block said no")


def _kill_once(_block: Block) -> None:
    mark = Path(os.environ["TOY_KILLED"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _register_buffer(block: Block) -> None:
    block.register_buffer("late", torch.ones(1))
    raise ValueError("after a change of state")


def _double(block: Block) -> None:
    block.scale = 2.0


_leaked: list[torch.Tensor] = []

FAULTS: dict[str, Callable[[Block], Any]] = {
    "raise": _raise,
    "out-of-memory": lambda _: torch.empty(1 << 50),
    "segmentation-fault": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "kill-once": _kill_once,
    "hang": lambda _: time.sleep(600),
    "leak": lambda _: _leaked.append(torch.ones(1000)),
    "register-buffer": _register_buffer,
    "double": _double,
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
    if Path(os.environ.get("TOY_NO_BUILD", "/nowhere")).exists():
        raise OSError("no model today")
    return Toy(layers, width, fault).train()


def batch(model: Toy, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    size = (workload.micro_batch, workload.shape.get("sequence_length", 16), model.width)
    return {"x": torch.randn(size, generator=generator)}


def loss(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    result: torch.Tensor = model(batch["x"].requires_grad_(False)).square().mean()
    return result


def chains(model: Toy) -> tuple[ChainInfo, ...]:
    units = tuple(f"blocks.{index}" for index in range(len(model.blocks)))
    return (ChainInfo(name="blocks", units=units, kinds={"linear": ("up", "down")}),)
