"""A small net that fails from a batch size on, where and how its settings say; on fake tensors it never does.

So forecasts promise what the real step then breaks. It is imported by workers as `tests.capacity.limited_model`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from bench.spec import ChainInfo, WorkloadSpec

SHAPE = ("features",)


def _kill_once() -> None:
    mark = Path(os.environ["LIMITED_KILLED"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _raise(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def _exit_while_timed() -> None:
    if sys.argv[0].endswith("capacity_rounds.py"):
        os._exit(3)


FAULTS: dict[str, Callable[[], None]] = {
    "out-of-memory": _raise(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")),
    "cublas": _raise(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")),
    "cpu-allocator": _raise(
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes")
    ),
    "memory-error": _raise(MemoryError()),
    "value": _raise(ValueError("the shapes 3 and 4 do not go together")),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "kill-once": _kill_once,
    "exit-while-timed": _exit_while_timed,
}


class Limited(nn.Module):
    def __init__(self, width: int, layers: int, fail_from: int, where: str, how: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(layers)
        )
        self.width = width
        self.fail_from, self.where, self.how = fail_from, where, how
        self.is_large = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.is_large = bool(self.fail_from) and len(x) >= self.fail_from and not isinstance(x, FakeTensor)
        self.fail("forward" if self.training else "evaluation")
        for block in self.blocks:
            x = block(x)
        if self.where == "backward" and x.requires_grad and self.is_large:
            x.register_hook(lambda _: self.fail("backward"))
        return x

    def fail(self, where: str) -> None:
        if self.is_large and where == self.where:
            FAULTS[self.how]()


def build(
    *, width: int = 32, layers: int = 3, fail_from: int = 0, where: str = "", how: str = "", samples: int = 0
) -> nn.Module:
    """`samples` are all that there are; 0 for as many as are asked for."""
    model = Limited(width, layers, fail_from, where, how).train()
    model.samples = samples  # type: ignore[assignment]
    if where == "optimizer":
        register_optimizer_step_pre_hook(lambda *_: model.fail("optimizer"))
    return model


def batch(model: Any, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    there = min(workload.micro_batch, model.samples or workload.micro_batch)
    return {"x": torch.randn((there, model.width), generator=generator)}


def loss(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    result: torch.Tensor = model(batch["x"]).square().mean()
    return result


def chains(model: Any) -> tuple[ChainInfo, ...]:
    return (ChainInfo(name="blocks", units=tuple(f"blocks.{i}" for i in range(len(model.blocks)))),)
