"""A model family whose every tensor is known: two linear layers of 64 with ReLU, on 32 rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bench.spec import ChainInfo, WorkloadSpec

LIBRARY = "torch"
SHAPE = ()
WIDTH = 64


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Layer(), Layer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def build() -> nn.Module:
    return TwoLayers()


def batch(model: nn.Module, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    return {"x": torch.randn(workload.micro_batch, WIDTH, generator=generator)}


def loss(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    result: torch.Tensor = model(batch["x"]).sum()
    return result


def chains(model: nn.Module) -> tuple[ChainInfo, ...]:
    return (ChainInfo(name="blocks", units=("blocks.0", "blocks.1")),)
