"""Writes somebody's own model file."""

from __future__ import annotations

from pathlib import Path

from bench.spec import ModelSpec

GOOD = """
import torch

def build(width=8):
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))

def batch(model, workload):
    return (torch.randn(workload.micro_batch, model[0].in_features),)

def loss(model, batch):
    return model(*batch).mean()
"""


def write_family(folder: Path, text: str = GOOD, **replaced: str) -> ModelSpec:
    """A file in `folder` and the spec that names it. `replaced` puts other code in place of a function of GOOD."""
    for name, code in replaced.items():
        start = text.index(f"def {name}(")
        end = text.find("\ndef ", start + 1)
        text = text[:start] + code + ("\n" + text[end:] if end >= 0 else "")
    path = folder / "somebodys_model.py"
    path.write_text(text)
    return ModelSpec(name="mine", target=str(path))
