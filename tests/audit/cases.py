"""Small models with the placement that is put on them, and what an audit must say of it.

`KNOWN` are the kinds that issue trackers report. `FURTHER` are others of the same kinds, written before the audit was
tried on them.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tests.audit import feeds, parts
from tests.audit.blocks import WIDTH, Block, Stack

BOTH = ("blocks.0", "blocks.1")


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[], nn.Module]
    kind: str = ""
    """That must be found; empty for a valid placement."""
    units: tuple[str, ...] = BOTH
    options: dict[str, Any] = field(default_factory=dict)
    """Of torch.utils.checkpoint."""
    between: Callable[[Any], None] | None = None
    """What the training loop does between forward and backward."""
    amp: bool = True
    """Whether it can run under bf16 autocast as well."""
    mended: bool = False
    """Whether a placement of ours is valid all the same: its reentrant regions keep the structure of their outputs."""

    @property
    def placement(self) -> str:
        tail = "@no-rng" if self.options.get("preserve_rng_state") is False else ""
        tail += "@reentrant" if self.options.get("use_reentrant") else ""
        return "+".join(unit + tail for unit in self.units)


NO_RNG = {"preserve_rng_state": False}
REENTRANT = {"use_reentrant": True}


def reset() -> None:
    """Values of classes and modules as they are at import."""
    parts.FACTOR = parts.ClassFactor.factor = 1.0
    parts.PRECISION["dtype"] = parts.ClassPrecision.dtype = torch.bfloat16
    feeds.ITEMS[:] = [float(n) for n in range(1, 100)]


def tied() -> nn.Module:
    stack = Stack(Block(), Block())
    stack.blocks[1].body[0].weight = stack.blocks[0].body[0].weight
    return stack


def number_file() -> Any:
    file = tempfile.TemporaryFile("w+")  # noqa: SIM115 - the module reads on
    file.write("\n".join(map(str, range(1, 1000))))
    file.seek(0)
    return file


def set_to(owner: Any, name: str, value: Any) -> Callable[[Any], None]:
    return lambda _model: setattr(owner, name, value)


def _double_weight(model: Any) -> None:
    model.blocks[0].body[0].weight.data.mul_(1.5)


def _write_detached(model: Any) -> None:
    with torch.no_grad():
        model.blocks[1].given.detach().add_(0.5)


def noisy(rate: float = 0.5) -> Block:
    return Block(nn.Dropout(rate))


KNOWN = (
    Case("dropout without the RNG state", lambda: Stack(noisy(), noisy()), "rng", options=NO_RNG),
    Case("Python's random in forward", lambda: Stack(parts.PythonNoise(), Block()), "rng"),
    Case("a generator of its own", lambda: Stack(parts.OwnGenerator(), Block()), "rng"),
    Case(
        "noise that is saved before it is drawn",
        lambda: Stack(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.RReLU()), Block()),
        "rng",
    ),
    Case("BatchNorm", lambda: Stack(parts.normed(), Block()), "state"),
    Case("a buffer that counts", lambda: Stack(parts.Counting(), Block()), "state"),
    Case("a loss summed up on the side", lambda: Stack(parts.RunningLoss(), Block()), "attribute"),
    Case("a cache that grows", lambda: Stack(parts.Growing(), Block()), "attribute"),
    Case(
        "a captured tensor changed",
        lambda: Stack(parts.Captured(), Block()),
        "mutation",
        between=lambda m: m.blocks[0].scale.mul_(3),
    ),
    Case(
        "a keyword tensor changed",
        lambda: parts.KeywordStack(parts.ByKeyword(), parts.ByKeyword()),
        "mutation",
        between=lambda m: m.scale.mul_(3),
    ),
    Case(
        "a class attribute switched",
        lambda: Stack(parts.ClassFactor(), Block()),
        "control",
        between=set_to(parts.ClassFactor, "factor", 3.0),
    ),
    Case(
        "reentrant behind an input without gradient",
        lambda: Stack(Block(), Block(), trains_input=False),
        "gradient",
        ("blocks.0",),
        REENTRANT,
    ),
    Case(
        "a view of a boundary written",
        lambda: Stack(Block(), parts.Remembering()),
        "mutation",
        between=lambda m: m.blocks[1].given.view(-1).mul_(1.5),
    ),
    Case(
        "a boundary written past its version",
        lambda: Stack(Block(), parts.Remembering()),
        "mutation",
        between=lambda m: m.blocks[1].given.data.mul_(1.5),
    ),
    Case(
        "a library's precision switched",
        lambda: Stack(parts.ClassPrecision(), Block()),
        "autocast",
        between=set_to(parts.ClassPrecision, "dtype", None),
        amp=False,
    ),
    Case("data drawn in forward", lambda: Stack(feeds.Fed(), Block()), "external"),
    Case("a hook that counts on its module", lambda: parts.with_hook(parts.counts_on_module), "hook"),
    Case(
        "an in-place op first",
        lambda: Stack(Block(), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH))),
        "mutation",
        ("blocks.1",),
    ),
    Case(
        "a named tuple through a reentrant region",
        lambda: parts.NamedStack(parts.NamedPair(), parts.NamedPair()),
        "structure",
        options=REENTRANT,
        mended=True,
    ),
    Case("plain blocks", lambda: Stack(Block(), Block())),
    Case("dropout", lambda: Stack(noisy(), noisy())),
    Case("a cache that is overwritten", lambda: Stack(parts.Overwriting(), Block())),
    Case("an in-place op inside", lambda: Stack(Block(nn.ReLU(inplace=True)), Block())),
    Case("a frozen region", lambda: Stack(Block().requires_grad_(False), Block())),
    Case("tied weights", tied),
    Case("weights used without gradient first", lambda: Stack(parts.CastFirst(), Block(), amp=True)),
    Case("dropout under autocast", lambda: Stack(noisy(), Block(), amp=True)),
    Case(
        "BatchNorm in eval mode",
        lambda: Stack(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH).eval()), Block()),
    ),
    Case("a named tuple", lambda: parts.NamedStack(parts.NamedPair(), parts.NamedPair())),
)

FURTHER = (
    Case("NumPy's random in forward", lambda: Stack(parts.NumpyNoise(), Block()), "rng"),
    Case("a random.Random of its own", lambda: Stack(parts.OwnRandom(), Block()), "rng"),
    Case(
        "dropped paths without the RNG state", lambda: Stack(parts.DropPath(), parts.DropPath()), "rng", options=NO_RNG
    ),
    Case("spectral norm", lambda: Stack(parts.spectral(), Block()), "state"),
    Case("a buffer that is bound anew", lambda: Stack(parts.MovingAverage(), Block()), "state"),
    Case("BatchNorm, reentrant", lambda: Stack(parts.normed(), Block()), "state", options=REENTRANT),
    Case("a branch by a counter", lambda: Stack(parts.Alternating(), Block()), "attribute"),
    Case("a log in a dict", lambda: Stack(parts.Logging(), Block()), "attribute"),
    Case(
        "an attribute changed by the loop",
        lambda: Stack(parts.Scaled(), Block()),
        "attribute",
        between=lambda m: setattr(m.blocks[0], "factor", 3.0),
    ),
    Case("eval() before backward", lambda: Stack(noisy(), Block()), "attribute", between=lambda m: m.eval()),
    Case("a count in a NumPy array", lambda: Stack(parts.Summing(), Block()), "attribute"),
    Case(
        "a rate of dropout changed by the loop",
        lambda: Stack(noisy(), Block()),
        "attribute",
        between=lambda m: setattr(m.blocks[0].body[2], "p", 0.1),
    ),
    Case("rows of a table", lambda: Stack(feeds.Loading(csv.reader(map(str, range(1, 1000)))), Block()), "external"),
    Case(
        "a data loader",
        lambda: Stack(feeds.Loading(iter(torch.utils.data.DataLoader(torch.arange(1.0, 1000.0)))), Block()),
        "external",
    ),
    Case("an iterator", lambda: Stack(feeds.Iterating(parts.counting()), Block()), "external"),
    Case(
        "an iterator over a list",
        lambda: Stack(feeds.Iterating(iter([float(n) for n in range(1, 50)])), Block()),
        "external",
    ),
    Case("a generator function", lambda: Stack(feeds.Iterating(feeds.stream()), Block()), "external"),
    Case("a generator function of the module's file", lambda: Stack(feeds.Trickling(), Block()), "external"),
    Case("a file", lambda: Stack(feeds.Reading(number_file()), Block()), "external"),
    Case("a list of the module's file", lambda: Stack(feeds.Popping(), Block()), "external"),
    Case("a weight written past its version", lambda: Stack(Block(), Block()), "mutation", between=_double_weight),
    Case(
        "an alias of a boundary written",
        lambda: Stack(Block(), parts.Remembering()),
        "mutation",
        between=_write_detached,
    ),
    Case(
        "a precision in a module's dict switched",
        lambda: Stack(parts.TablePrecision(), Block()),
        "autocast",
        between=lambda _m: parts.PRECISION.update(dtype=None),
        amp=False,
    ),
    Case(
        "a value of the module's file switched",
        lambda: Stack(parts.ModuleFactor(), Block()),
        "control",
        between=set_to(parts, "FACTOR", 3.0),
    ),
    Case(
        "a branch by the gradient mode, reentrant",
        lambda: Stack(parts.GradModeBranch(), Block()),
        "control",
        options=REENTRANT,
    ),
    Case(
        "a list through a reentrant region",
        lambda: Stack(parts.ListPair(), parts.ListPair()),
        "structure",
        options=REENTRANT,
        mended=True,
    ),
    Case(
        "an environment variable set",
        lambda: Stack(parts.FromTheEnvironment(), Block()),
        "control",
        between=lambda _m: os.environ.update({parts.VARIABLE: "3"}),
    ),
    Case(
        "a flag of torch switched",
        lambda: Stack(parts.ByFlag(), Block()),
        "control",
        between=lambda _m: torch.use_deterministic_algorithms(True),
    ),
    Case("a hook that counts in its closure", lambda: parts.with_hook(parts.counts_in_closure), "hook"),
    Case("a forward that fails in backward", lambda: Stack(parts.Once(), Block()), "error"),
    Case("a forward that says in backward what it was given", lambda: Stack(parts.Telling(), Block()), "error"),
    Case("a table built at the first call", lambda: Stack(parts.Table(), Block())),
    Case("a hook without state", lambda: parts.with_hook(parts.doubles_output)),
    Case("a precision switched back after backward", lambda: Stack(parts.TablePrecision(), Block()), amp=False),
    Case("no blocks but the last", lambda: Stack(noisy(), noisy()), units=("blocks.1",)),
    Case("reentrant dropout", lambda: Stack(noisy(), noisy()), options=REENTRANT),
)
