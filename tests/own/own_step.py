"""A small training script: a model, its optimizer and a step, as a person would have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.own import OwnStudy, measure
from tests.families import toy

PROTOCOL = {"rounds_min": 3, "rounds_max": 3, "warmup_steps_min": 0, "warmup_steps_max": 0}
EACH = "blocks.0..3:each"


@dataclass
class Script:
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    batch: torch.Tensor
    step: Callable[[], Any]

    def measure(self, results: Path, *placements: str, **options: Any) -> OwnStudy:
        texts = placements or (EACH,)
        fixed: dict[str, Any] = {
            "optimizer": self.optimizer,
            "results": results,
            "protocol": PROTOCOL,
            "watch": _silent,
            "plots": False,
            "audit": "off",  # the toy counts its own passes, which is state that moves
        }
        return measure(self.step, self.model, texts, **(fixed | options))


def script(fault: str = "", micro_batches: int = 1, zero_grad_first: bool = False, seed: int = 0) -> Script:
    torch.manual_seed(seed)
    model = toy.build(layers=4, width=32, fault=fault)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(4, 16, 32)

    def step() -> torch.Tensor:
        if zero_grad_first:
            optimizer.zero_grad()
        for part in batch.chunk(micro_batches):
            loss: torch.Tensor = model(part).square().mean() / micro_batches
            loss.backward()
        optimizer.step()
        if not zero_grad_first:
            optimizer.zero_grad()
        return loss

    return Script(model, optimizer, batch, step)


def _silent(_event: object) -> None:
    pass
