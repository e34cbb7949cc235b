"""GPT-2 and T5 at test size, each with a batch: the two shapes of chain that placements must cope with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import nn

import models.gpt2
import models.t5
from bench.placement import generate_placements
from bench.spec import ChainInfo, WorkloadSpec

EVERY_GENERATOR: dict[str, object] = {
    "none": True,
    "each": True,
    "every": [2, 3],
    "first": [2],
    "but_last": [1],
    "spans": [1, 2, "sqrt"],
    "nested": [1, 2],
    "kinds": ["attention", "mlp", "norm"],
    "policies": ["matmul", "attention", "matmul%2", "attention.matmul", "matmul/0/2"],
    "options": ["no-rng", "reentrant", "no-early-stop", "no-determinism-check", "restore"],
}


@dataclass(frozen=True)
class TinyModel:
    family: ModuleType
    settings: dict[str, Any]
    shape: dict[str, int]

    def build(self, **changed: Any) -> nn.Module:
        torch.manual_seed(0)
        model: nn.Module = self.family.build(**{**self.settings, **changed})
        return model

    def chains(self) -> tuple[ChainInfo, ...]:
        chains: tuple[ChainInfo, ...] = self.family.chains(self.build())
        return chains

    def loss(self, model: nn.Module) -> Callable[[], torch.Tensor]:
        batch = self.family.batch(
            model, WorkloadSpec(micro_batch=2, shape=self.shape), torch.Generator().manual_seed(0)
        )
        return lambda: self.family.loss(model, batch)


GPT2 = TinyModel(
    models.gpt2,
    {"layers": 6, "width": 32, "heads": 2, "vocabulary": 64, "positions": 32},
    {"sequence_length": 16},
)
T5 = TinyModel(
    models.t5,
    {"layers": 4, "width": 32, "feed_forward": 64, "heads": 2, "vocabulary": 64},
    {"sequence_length": 16, "target_length": 8},
)
MODELS = {"gpt2": GPT2, "t5": T5}


def placement_texts(name: str) -> list[str]:
    return [entry.text for entry in generate_placements(EVERY_GENERATOR, MODELS[name].chains())]
