"""Units whose forward moves state, one a kind, in a model that a test trains plainly and replayed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import nn

D = 8


class Moving(nn.Module):
    """A linear layer and GELU around what a kind of unit does in `scale`."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.out(nn.functional.gelu(self.layer(x)) * self.scale(x.detach()))
        return x + torch.tanh(y)

    def scale(self, x: torch.Tensor) -> Any:
        raise NotImplementedError


class Norms(nn.Module):
    """BatchNorm: its kernel moves the statistics past their version counters."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.out = nn.Linear(D, D), nn.BatchNorm1d(D), nn.Linear(D, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(torch.relu(self.norm(self.layer(x))))
        return x + y


class Spectral(Moving):
    """Power iteration moves u and v in each forward, without gradients, and the weight depends on them."""

    def __init__(self, apply: Callable[[nn.Module], nn.Module]) -> None:
        super().__init__()
        self.layer = apply(self.layer)  # type: ignore[assignment]

    def scale(self, x: torch.Tensor) -> float:
        return 1.0


class AmaxHistory(Moving):
    """fp8-style delayed scaling: the scale comes from the amax of earlier calls, and this call's is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("history", torch.ones(4))

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        scale = 1 / self.history.max()
        self.history.copy_(self.history.roll(1))
        self.history[0] = x.abs().max()
        return scale


class SavedBuffer(Moving):
    """Autograd saves the buffer itself, which each call replaces by another."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factor", torch.ones(D))

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        self.factor = self.factor * 0.9 + x.abs().mean(0)
        return self.factor


class SharedStorage(Moving):
    """Two buffers that are views of one: what is written to one is read through the other."""

    def __init__(self) -> None:
        super().__init__()
        both = torch.ones(2 * D)
        self.register_buffer("all", both)
        self.register_buffer("part", both[D:])

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        self.all.add_(x.abs().mean())
        return self.part.clone()


class PastTheCounter(Moving):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(D))

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.data.add_(x.mean(0))
        return self.mean.clone()


class PythonRandom(Moving):
    def scale(self, x: torch.Tensor) -> float:
        return random.uniform(0.1, 2.0)


class NumPyRandom(Moving):
    def scale(self, x: torch.Tensor) -> float:
        return float(numpy.random.rand())


class OwnGenerators(Moving):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)
        self.others = {"python": random.Random(2), "numpy": numpy.random.default_rng(3)}

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.others["python"].random() + self.others["numpy"].random()
        return torch.rand(x.shape, generator=self.generator) * factor


class Attributes(Moving):
    """A number, a text, a flag that is there from the first call on, a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.total, self.word, self.last = 0.0, "", (0, 0.0)

    def scale(self, x: torch.Tensor) -> float:
        if not hasattr(self, "begun"):
            self.begun = True
            self.total += 1
        self.total += float(x.abs().mean())
        self.word += "x"
        self.last = (self.last[0] + 1, self.total)
        return self.total + len(self.word) + self.last[0]


class Containers(Moving):
    """Containers that grow; a second name for one of them is the same object in replay too."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []
        self.same = self.seen
        self.recent: deque[float] = deque(maxlen=3)
        self.by_name: dict[str, list[int]] = {"calls": [0]}
        self.kinds: set[int] = set()
        self.array = numpy.zeros(2)
        self.sums = [torch.zeros(()), torch.zeros(())]

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x)
        self.recent.append(float(x.abs().mean()))
        self.by_name["calls"][0] += 1
        self.by_name[f"call {len(self.seen)}"] = []
        self.kinds.add(len(self.same))
        self.array += 1
        self.sums[1].add_(x.mean())
        grown = len(self.same) + len(self.by_name) + self.by_name["calls"][0] + len(self.kinds) + self.array.sum()
        return torch.stack(self.seen).mean() + sum(self.recent) + grown + self.sums[1]


@dataclass
class Meter:
    calls: int = 0
    peak: torch.Tensor = field(default_factory=lambda: torch.zeros(()))


class Objects(Moving):
    def __init__(self) -> None:
        super().__init__()
        self.meters = {"one": Meter(), "two": Meter()}

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        self.meters["one"].calls += 1
        self.meters["two"].peak.add_(x.abs().max())
        return self.meters["two"].peak / self.meters["one"].calls


KINDS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm": Norms,
    "spectral norm": lambda: Spectral(nn.utils.parametrizations.spectral_norm),
    "spectral norm by hooks": lambda: Spectral(nn.utils.spectral_norm),
    "amax history": AmaxHistory,
    "a saved buffer": SavedBuffer,
    "views of one buffer": SharedStorage,
    "a write past the version counter": PastTheCounter,
    "Python's random": PythonRandom,
    "NumPy's random": NumPyRandom,
    "generators": OwnGenerators,
    "attributes": Attributes,
    "containers": Containers,
    "objects": Objects,
}


class Blocks(nn.Module):
    """Two units of one kind and a linear head; every unit may be called several times in a row."""

    def __init__(self, kind: str, *, num_calls: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(KINDS[kind]() for _ in range(2))
        self.head = nn.Linear(D, 1)
        self.num_calls = num_calls

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            for _ in range(self.num_calls):
                x = block(x)
        loss: torch.Tensor = self.head(x).square().mean()
        return loss


def seeded() -> None:
    torch.manual_seed(7)
    random.seed(7)
    numpy.random.seed(7)


def state_of(model: nn.Module) -> dict[str, Any]:
    """Buffers, attributes (as text), and all states of random numbers."""
    state: dict[str, Any] = {f"buffer {name}": buffer.clone() for name, buffer in model.named_buffers()}
    skipped = {*vars(nn.Module()), "forward"} - {"training"}
    for path, module in model.named_modules():
        own = {name: value for name, value in vars(module).items() if name not in skipped}
        state |= {f"attribute {path}.{name}": shown(value) for name, value in own.items()}
    numpy_state = numpy.random.get_state()
    state["random"] = (random.getstate(), shown(numpy_state), shown(torch.get_rng_state()))
    return state


def shown(value: Any) -> str:
    """Text that is equal only where the values are."""
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return f"{value.dtype} {value.tolist()}"
    if isinstance(value, torch.Generator):
        return shown(value.get_state())
    if isinstance(value, random.Random):
        return repr(value.getstate())
    if isinstance(value, numpy.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, dict):
        return repr({name: shown(entry) for name, entry in value.items()})
    if isinstance(value, list | tuple | deque):
        return repr([shown(entry) for entry in value])
    return shown(vars(value)) if isinstance(value, Meter) else repr(value)
