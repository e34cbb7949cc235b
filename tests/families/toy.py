"""A chain of small blocks in plain torch, any of which can be made to fail while a placement replays it.

`fault` is a list of `PLACE:FAULT` with commas between. A place is a block and a phase of its placed step (`1.replay`),
or `plain.N`, the N-th training step without a placement, or `build`. A fault by itself means `1.replay`.
It takes GPT-2's settings, so that `model=gpt2-tiny model.target=tests.families.toy +model.settings.fault=…` runs it.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.checkpoint import checkpoint

from bench.placement.region_forward import PlacedForward, in_replay
from bench.spec import ChainInfo, WorkloadSpec

SHAPE = ("sequence_length",)
DEFAULT_PLACE = "1.replay"
PHASES = ("forward", "replay", "backward", "optimizer", "timed")
"""`backward` is what autograd runs of a placed block outside its replay; `timed` is a replay after the two steps of the
memory pass."""
MEMORY_PASS_STEPS = 2
OF_THE_MODEL = ("checkpoints-itself", "draws-from-python", "not-finite")
"""Faults of the model as a whole, at whatever place."""


class Block(nn.Module):
    def __init__(self, width: int, faults: dict[str, Callable[[Block], Any]]) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.idle = nn.Dropout(0.0)
        self.down = nn.Linear(4 * width, width)
        self.faults = faults
        self.replays = 0
        self.is_to_fail_in_the_optimizer = False
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        is_placed = isinstance(vars(self).get("forward"), PlacedForward)
        if in_replay():
            self.replays += 1
            self.is_to_fail_in_the_optimizer = True
            self._fail("replay")
            if self.replays > MEMORY_PASS_STEPS:
                self._fail("timed")
        elif is_placed:
            self._fail("forward")
        result = x + self.scale * self.down(torch.nn.functional.gelu(self.idle(self.up(x))))
        if "backward" in self.faults and is_placed and not in_replay() and result.requires_grad:
            result.register_hook(lambda _: self._fail("backward"))
        return result

    def before_optimizer(self) -> None:
        if self.is_to_fail_in_the_optimizer:
            self.is_to_fail_in_the_optimizer = False
            self._fail("optimizer")

    def _fail(self, phase: str) -> None:
        if phase in self.faults:
            self.faults[phase](self)


class Toy(nn.Module):
    def __init__(self, layers: int, width: int, faults: dict[str, str]) -> None:
        super().__init__()
        self.width = width
        self.faults = faults
        self.plain_steps = 0
        self.blocks = nn.ModuleList(
            Block(width, {p: FAULTS[faults[f"{i}.{p}"]] for p in PHASES if faults.get(f"{i}.{p}") in FAULTS})
            for i in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and not any("forward" in vars(block) for block in self.blocks):
            self.plain_steps += 1
            fault = self.faults.get(f"plain.{self.plain_steps}")
            if fault is not None:
                FAULTS[fault](self.blocks[0])
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if "checkpoints-itself" in self.faults.values() else block(x)
        if "draws-from-python" in self.faults.values():
            return x * (1.0 + random.random())
        return x * (math.inf if "not-finite" in self.faults.values() else 1.0)


def _raise(_block: Block) -> None:
    raise ValueError("the block said no")


def _out_of_memory(_block: Block) -> None:
    held = [torch.ones(1 << 18)]  # lives as long as this frame does
    torch.empty(1 << 50)
    held.clear()


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


def _compute_for_ever(_block: Block) -> None:
    while True:
        pass


def _deadlock(_block: Block) -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def _cpp() -> ctypes.CDLL:
    return ctypes.CDLL("libstdc++.so.6")


def _leak_cycle(_block: Block) -> None:
    cycle: list[Any] = [torch.ones(1)]
    cycle.append(cycle)


def _print_very_much(_block: Block) -> None:
    line = "a" * (1 << 20)
    for _ in range(24):
        print(line, flush=True)


def _once(name: str) -> bool:
    """Whether this is the first time, in all processes that share the folder TOY_MARKS."""
    mark = Path(os.environ["TOY_MARKS"]) / name
    if mark.exists():
        return False
    mark.touch()
    return True


def _delete_records(_block: Block) -> None:
    if _once("deleted"):
        _records_file().unlink()


def _fill_disk(_block: Block) -> None:
    """From now on the records' file takes 10 bytes more, which is no line, and a longer file none at all."""
    if _once("filled"):
        room = _records_file().stat().st_size + 10
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


def _records_file() -> Path:
    return next(Path(os.environ["TOY_MARKS"]).glob("*/samples.jsonl"))


_leaked: list[torch.Tensor] = []

FAULTS: dict[str, Callable[[Block], Any]] = {
    "raise": _raise,
    "out-of-memory": _out_of_memory,
    "segmentation-fault": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "null-pointer": lambda _: ctypes.string_at(0),
    "abort": lambda _: os.abort(),
    "terminate": lambda _: _cpp()._ZSt9terminatev(),
    "bad-alloc": lambda _: _cpp()._ZSt17__throw_bad_allocv(),
    "floating-point-exception": lambda _: os.kill(os.getpid(), signal.SIGFPE),
    "terminated": lambda _: os.kill(os.getpid(), signal.SIGTERM),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "kill-once": _kill_once,
    "exit": lambda _: sys.exit(3),
    "exit-at-once": lambda _: os._exit(0),
    "exit-at-once-1": lambda _: os._exit(1),
    "hang": lambda _: time.sleep(600),
    "compute-for-ever": _compute_for_ever,
    "deadlock": _deadlock,
    "leak": lambda _: _leaked.append(torch.ones(1000)),
    "leak-cycle": _leak_cycle,
    "print-very-much": _print_very_much,
    "register-buffer": _register_buffer,
    "double": _double,
    "delete-records": _delete_records,
    "fill-disk": _fill_disk,
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
    parts = (part.rpartition(":") for part in fault.split(",") if part)
    model = Toy(layers, width, {place or DEFAULT_PLACE: name for place, _, name in parts}).train()
    if "build" in model.faults:
        FAULTS[model.faults["build"]](model.blocks[0])
    if any(place.endswith(".optimizer") for place in model.faults):
        register_optimizer_step_pre_hook(lambda *_: [block.before_optimizer() for block in model.blocks] and None)
    return model


def batch(model: Toy, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    size = (workload.micro_batch, workload.shape.get("sequence_length", 16), model.width)
    return {"x": torch.randn(size, generator=generator)}


def loss(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    result: torch.Tensor = model(batch["x"].requires_grad_(False)).square().mean()
    return result


def chains(model: Toy) -> tuple[ChainInfo, ...]:
    units = tuple(f"blocks.{index}" for index in range(len(model.blocks)))
    return (ChainInfo(name="blocks", units=units, kinds={"linear": ("up", "down")}),)
