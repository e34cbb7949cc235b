"""Your own model in a file: `python -m bench sweep model=custom model.target=examples/my_model.py`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class TinyTransformer(nn.Module):
    def __init__(self, *, layers: int, width: int, vocabulary: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mean next-token cross-entropy of `tokens`, int64 of shape (samples, length)."""
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(hidden[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, num_heads=4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(x)


def build(layers: int = 4, width: int = 64) -> nn.Module:
    """Options `model.settings` are the arguments."""
    return TinyTransformer(layers=layers, width=width)


def batch(model: nn.Module, workload: Any) -> dict[str, torch.Tensor]:
    """One micro-batch; the random generators are seeded before."""
    length = workload.shape.get("sequence_length", 64)
    return {"tokens": torch.randint(0, 256, (workload.micro_batch, length))}
