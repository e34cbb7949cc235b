"""Runs a script of docs/apply.md in a process of its own, and keeps what it trained: trained.py SCRIPT RESULT."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch


def main(script: str, result: str) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(Path(script).read_text(), script, "exec"), scope)
    weights = {name: _plain(tensor) for name, tensor in scope["model"].state_dict().items()}
    replays = [counts.replays for _, counts in scope["applied"].counts]
    torch.save({"losses": scope["losses"], "weights": weights, "replays": replays}, result)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """One process holds the whole of a sharded tensor."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.detach().clone()


if __name__ == "__main__":
    main(*sys.argv[1:])
