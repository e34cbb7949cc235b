"""Your own loop, optimizer and data: measure where the boundaries should go, then train with the best of them."""

from __future__ import annotations

import sys

import torch
from my_model import TinyTransformer
from torch import nn

from bench import apply, measure

torch.manual_seed(0)
model = TinyTransformer(layers=4, width=64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=100)
batch = {"tokens": torch.randint(0, 256, (8, 64))}  # one fixed batch for measuring; training may use others


def step() -> torch.Tensor:
    """One whole training step, and its loss."""
    optimizer.zero_grad()
    loss: torch.Tensor = model(**batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    return loss


def main(results: str = "results") -> None:
    study = measure(
        step,
        model,
        placements={"none": True, "each": True, "every": [2], "kinds": ["mlp"], "spans": [2]},
        optimizer=optimizer,
        state=[schedule],
        batch=batch,
        name="my-training",
        results=results,
        protocol={"rounds_max": 5},
        time_cap_s=60,
    )
    print(study.table())
    with apply(model, study.winner, forward=lambda: model(**batch)):
        for _ in range(3):
            print(f"loss {step().item():.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
