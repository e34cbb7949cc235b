"""Small modules whose replay is, or is not, the first pass again."""

from __future__ import annotations

import collections
import itertools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch import nn

from tests.audit.blocks import WIDTH, Block, Stack

VARIABLE = "BOUNDARY_BENCH_TEST_FACTOR"
FACTOR = 1.0
"""A value of this module that a forward reads."""
PRECISION: dict[str, torch.dtype | None] = {"dtype": torch.bfloat16}


# rng


class PythonNoise(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * random.uniform(0.5, 2.0)


class NumpyNoise(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(numpy.random.uniform(0.5, 2.0))


class OwnRandom(Block):
    def __init__(self) -> None:
        super().__init__()
        self.random = random.Random(3)

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.random.uniform(0.5, 2.0)


class OwnGenerator(Block):
    def __init__(self) -> None:
        super().__init__()
        self.source = torch.Generator().manual_seed(5)

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(x.shape, generator=self.source)


class DropPath(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.bernoulli(torch.full((x.shape[0], 1), 0.7))


# state


class Counting(Block):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x * self.seen


class MovingAverage(Block):
    """Its buffer is bound to a new tensor each time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.ones(()))

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.average = 0.9 * self.average + 0.1 * x.detach().abs().mean()
        return x / self.average


def normed() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def spectral() -> Block:
    block = Block()
    nn.utils.parametrizations.spectral_norm(block.body[0])
    return block


# attribute


class RunningLoss(Block):
    def __init__(self) -> None:
        super().__init__()
        self.extra_loss = 0.0

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.extra_loss += float(x.detach().abs().mean())
        return x


class Growing(Block):
    def __init__(self) -> None:
        super().__init__()
        self.memory: list[torch.Tensor] = []

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.memory.append(x.detach())
        return x * torch.softmax(x @ torch.cat(self.memory).T, -1).mean()


class Overwriting(Block):
    def __init__(self) -> None:
        super().__init__()
        self.memory: torch.Tensor | None = None

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.memory = x.detach().clone()
        return x * torch.softmax(x @ self.memory.T, -1).mean()


class Alternating(Block):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x.sin() if self.calls % 2 else x.exp()


class Logging(Block):
    def __init__(self) -> None:
        super().__init__()
        self.log: dict[str, list[float]] = {"means": []}

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.log["means"].append(x.detach().mean().item())
        return x


class Scaled(Block):
    """Multiplies by a plain number of its own, which a training loop may change."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Table(Block):
    """Builds what it needs at its first call, as rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.linspace(0.5, 1.5, x.shape[-1])
        return x * self.table


class Summing(Block):
    """Counts in a NumPy array."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = numpy.zeros(2)

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.sums += 1
        return x * float(self.sums[0])


# mutation


class Captured(Block):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(WIDTH)

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale).sin()


class ByKeyword(Block):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return x + self.body((scale * x).sin())


class KeywordStack(Stack):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__(*blocks)
        self.scale = torch.ones(WIDTH)

    def call(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return block(x, scale=self.scale)


class Remembering(Block):
    def __init__(self) -> None:
        super().__init__()
        self.given: torch.Tensor | None = None

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        self.given = x
        return x.sin()


# autocast


class CastFirst(Block):
    """Uses its weights without gradients first, whose casts autocast may keep."""

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = self.body(x).abs().mean().float()
        return x * scale


class ClassPrecision(Block):
    dtype: torch.dtype | None = torch.bfloat16

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=ClassPrecision.dtype is not None):
            return x + self.body(x).float()


class TablePrecision(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=PRECISION["dtype"] is not None):
            return x + self.body(x).float()


# control


class ClassFactor(Block):
    factor = 1.0

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * ClassFactor.factor


class ModuleFactor(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return (x * FACTOR).sin()


class GradModeBranch(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() if torch.is_grad_enabled() else x.cos()


# structure

Pair = collections.namedtuple("Pair", "kept made")


class NamedPair(Block):
    def forward(self, x: torch.Tensor) -> Any:
        return Pair(x, self.body(x))


class NamedStack(Stack):
    def call(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        pair = block(x)
        return pair.kept + pair.made


class ListPair(Block):
    def forward(self, x: torch.Tensor) -> Any:
        return [x * 1.0, self.body(x)]


# hook


def with_hook(add: Callable[[nn.Module], object]) -> Stack:
    stack = Stack(Block(), Block())
    add(stack.blocks[0].body[0])
    return stack


def counts_on_module(module: nn.Module) -> None:
    module.calls = 0

    def count(module: Any, _inputs: Any, _output: Any) -> None:
        module.calls += 1

    module.register_forward_hook(count)


def counts_in_closure(module: nn.Module) -> None:
    calls = {"number": 0}

    def count(_module: Any, _inputs: Any) -> None:
        calls["number"] += 1

    module.register_forward_pre_hook(count)


def doubles_output(module: nn.Module) -> None:
    module.register_forward_hook(lambda _module, _inputs, output: 2 * output)


def counting() -> Iterator[int]:
    return itertools.count(1)


# error


class FromTheEnvironment(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(os.environ.get(VARIABLE, "1"))


class ByFlag(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() if torch.are_deterministic_algorithms_enabled() else x.cos()


class Once(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        if torch._C._current_graph_task_id() != -1:
            raise RuntimeError("this forward cannot run in backward")
        return x


class Telling(Block):
    """Computes what it says of its input before it raises."""

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        if torch._C._current_graph_task_id() != -1:
            raise RuntimeError(f"this forward cannot run in backward, on a mean of {x.detach().mean().item()}")
        return x
