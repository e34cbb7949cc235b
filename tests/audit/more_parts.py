"""Further modules whose replay is, or is not, the first pass again. Each takes its name from what it does."""

from __future__ import annotations

import contextvars
import functools
import os
import queue
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import nn

from tests.audit.blocks import WIDTH, Block, Stack

VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("factor", default=1.0)
NAME = "BOUNDARY_BENCH_TEST_FACTOR"


def score(x: torch.Tensor) -> torch.Tensor:
    """A loss that all of the model has a part in."""
    return (x - torch.linspace(-1, 1, WIDTH)).square().mean() + (x * x.roll(1, -1)).mean()


class Twisted(Block):
    """A block whose twist is a function of it and its input, and that has these attributes."""

    def __init__(self, twist: Callable[[Any, torch.Tensor], torch.Tensor], **attributes: Any) -> None:
        super().__init__()
        self.twisting = twist
        for name, value in attributes.items():
            setattr(self, name, value)

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return self.twisting(self, x)


# state that was not put back or not read


def counts_in_an_array(block: Any, x: torch.Tensor) -> torch.Tensor:
    block.seen += 1
    return x


def counts_in_a_dict(block: Any, x: torch.Tensor) -> torch.Tensor:
    block.held["n"].add_(1)
    return x * block.held["n"].clone()


def asks_a_pool(block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * block.pool.submit(lambda: 2.0).result()


def reads_an_array(block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * torch.from_numpy(block.scale)


def reads_the_environment(_block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * float(os.environ.get(NAME, "1"))


def reads_a_context_variable(_block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * VARIABLE.get()


def makes_a_default(_block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * torch.linspace(0.5, 1, WIDTH).to(x.dtype)


class Sine(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


def cosine(_block: Any, x: torch.Tensor) -> torch.Tensor:
    return x.cos()


SINE = Sine.twist


def activates(block: Any, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = block.activation(x)
    return out


def keeps_a_gradient(block: Any, x: torch.Tensor) -> torch.Tensor:
    block.inner = x.sin()
    if block.inner.requires_grad:
        block.inner.retain_grad()
    out: torch.Tensor = block.inner
    return out


# plain objects


class Config:
    def __init__(self) -> None:
        self.factor = 1.0


class Meter:
    """Counts, and hands nothing out."""

    def __init__(self) -> None:
        self.count = 0

    def update(self) -> None:
        self.count += 1


def scales_by_config(block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * block.config.factor


def is_metered(block: Any, x: torch.Tensor) -> torch.Tensor:
    block.meter.update()
    return x


class Closed(Block):
    """Its factor is a variable of a closure."""

    def __init__(self) -> None:
        super().__init__()
        factor = 1.0

        def scale(x: torch.Tensor) -> torch.Tensor:
            return x * factor

        def switch(value: float) -> None:
            nonlocal factor
            factor = value

        self.scale, self.switch = scale, switch

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale(x)


class Locked(Block):
    def __init__(self) -> None:
        super().__init__()
        self.lock, self.library = threading.Lock(), torch.special

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            out: torch.Tensor = self.library.expit(x)
            return out


def filled_queue() -> queue.Queue[float]:
    numbers: queue.Queue[float] = queue.Queue()
    for number in range(1, 100):
        numbers.put(float(number))
    return numbers


def loaded() -> Any:
    data = torch.utils.data.TensorDataset(torch.arange(1.0, 100.0))
    return iter(torch.utils.data.DataLoader(data))


def takes_from_a_loader(block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * next(block.numbers)[0]


def drawing() -> Callable[..., torch.Tensor]:
    return functools.partial(torch.rand, generator=torch.Generator().manual_seed(2))


def draws(block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * block.draw(x.shape)


# arguments


class Given(Stack):
    """Hands each block a list or dict beside the tensor."""

    def __init__(self, make: Callable[[], Any], *blocks: nn.Module) -> None:
        super().__init__(*blocks)
        self.make = make

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given, x = self.make(), x.detach().requires_grad_()
        for block in self.blocks:
            x = block(x, given)
        return score(x)


class CountsInArgument(Block):
    def forward(self, x: torch.Tensor, given: dict[str, float]) -> torch.Tensor:
        given["n"] = given.get("n", 0) + 1
        return super().forward(x * given["n"])


class SharesThroughArgument(Block):
    """The first block computes what the others reuse."""

    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, given: dict[str, torch.Tensor]) -> torch.Tensor:
        if "key" not in given:
            given["key"] = self.key(x)
        return super().forward(x * given["key"].sigmoid())


class GivenRecord(Stack):
    """Blocks that hand out an object."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        for block in self.blocks:
            x = block(x).made
        return score(x)


@dataclass
class Record:
    made: torch.Tensor


class Recording(Block):
    def forward(self, x: torch.Tensor) -> Any:
        return Record(super().forward(x))


class Halved(Block):
    """Its first op saves nothing, so that nothing checks its input's version."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given = x
        return self.body(x * 0.5)


def brighter_with_gradients(_block: Any, x: torch.Tensor) -> torch.Tensor:
    return x * (2.0 if torch.is_grad_enabled() else 1.0)


# hooks


def hooked(add: Callable[[Any], object]) -> Stack:
    stack = Stack(Block(), Block())
    add(stack)
    return stack


def removes_itself(stack: Any) -> None:
    def double(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        stack.handle.remove()
        return output * 2

    stack.handle = stack.blocks[0].body[0].register_forward_hook(double)


def collects_on_the_model(stack: Any) -> None:
    stack.features = []
    stack.blocks[0].body[0].register_forward_hook(lambda _m, _i, output: stack.features.append(output.detach()))


def counts_backwards(stack: Any) -> None:
    stack.calls = 0

    def count(_module: Any, _given: Any, _out: Any) -> None:
        stack.calls += 1

    stack.blocks[0].body[0].register_full_backward_hook(count)


def counts_the_unit(stack: Any) -> None:
    stack.calls = 0

    def count(_module: Any, _inputs: Any, _output: Any) -> None:
        stack.calls += 1

    stack.blocks[0].register_forward_hook(count)


def counts_gradients(stack: Any) -> None:
    stack.calls = 0

    def count(_parameter: Any) -> None:
        stack.calls += 1

    for parameter in stack.blocks[0].parameters():
        parameter.register_post_accumulate_grad_hook(count)


def steps_in_backward(stack: Any) -> None:
    def step(parameter: Any) -> None:
        parameter.data.sub_(parameter.grad, alpha=0.1)
        parameter.grad = None

    for parameter in stack.parameters():
        parameter.register_post_accumulate_grad_hook(step)


def array(value: float = 1.0) -> Any:
    return numpy.full(WIDTH, value, numpy.float32)


def namespace() -> Any:
    return types.SimpleNamespace(factor=1.0)
