"""The global random generators: Python's, NumPy's, torch's, and that of every GPU in use."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Any

import numpy
import torch

PYTHON, NUMPY, TORCH = "Python's random", "numpy.random", "torch's generator"


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """States, to be put back."""

    python: Any
    numpy: Any
    cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...]


def kept_seeds() -> Seeds:
    return Seeds(
        python=random.getstate(),
        numpy=numpy.random.get_state(),
        cpu=torch.get_rng_state(),
        cuda=tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else (),
    )


def restore_seeds(seeds: Seeds) -> None:
    random.setstate(seeds.python)
    numpy.random.set_state(seeds.numpy)
    torch.set_rng_state(seeds.cpu)
    if seeds.cuda:
        torch.cuda.set_rng_state_all(list(seeds.cuda))


def seed_all(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed % 2**63)
    numpy.random.seed(seed % 2**32)


def seed_digests() -> dict[str, str]:
    """Generator → its state in short."""
    seeds = kept_seeds()
    named = {
        PYTHON: repr(seeds.python).encode(),
        NUMPY: repr(seeds.numpy[:1] + seeds.numpy[2:]).encode() + seeds.numpy[1].tobytes(),
        TORCH: seeds.cpu.numpy().tobytes(),
    }
    named |= {f"the generator of cuda:{i}": state.numpy().tobytes() for i, state in enumerate(seeds.cuda)}
    return {name: hashlib.blake2b(state, digest_size=8).hexdigest() for name, state in named.items()}
