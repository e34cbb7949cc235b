"""What a model decides by its data: which expert a token goes to, how many rows that makes. Fake tensors cannot know
it, so it is recorded in one plain forward of the real model, and given again where the fake step decides the same.

A decision belongs to a site: the module whose forward asks for it, and the op. A replay decides as its first pass did.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from bench.placement.region_forward import in_replay
from bench.step import TrainingStep

aten = torch.ops.aten
Site = tuple[str, str]
"""(module, op)."""
_CHOICES = {
    aten.topk.default: 2,
    aten.sort.default: 1,
    aten.sort.stable: 2,
    aten.argsort.default: 1,
    aten.argmax.default: 1,
    aten.argmin.default: 1,
    aten.max.dim: 1,
    aten.min.dim: 1,
    aten.multinomial.default: 9,
}
"""Ops that hand out positions, and where among their arguments the dimension stands that they choose from."""
_TAGS = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
_INDEXING = frozenset({aten.index.Tensor, aten.index_put.default, aten.index_put_.default})
"""Tagged as dynamic for the sake of masks; with whole numbers they decide nothing, and a mask is made by another op."""


@cache
def decides(func: Any) -> bool:
    """Whether whole numbers that this op hands out, or its result's shape, may hang on data."""
    return func in _CHOICES or (func not in _INDEXING and any(tag in func.tags for tag in _TAGS))


@dataclass(frozen=True, kw_only=True)
class Tape:
    """The decisions of one step's forwards, in their order."""

    decisions: Mapping[Site, Sequence[tuple[Any, ...]]]
    """One entry a call: the tensors that the op handed out, in host memory, None for those of floating point; or the
    number that was read."""
    micro_batches: int


@dataclass
class Routing:
    """Decisions for a fake step; without a tape, work is taken to be spread evenly."""

    tape: Tape | None = None
    assumed: set[Site] = field(default_factory=set)
    """Sites whose decisions were not recorded."""
    _names: dict[int, str] = field(default_factory=dict)
    _calls: dict[Site, int] = field(default_factory=dict)
    """First passes so far."""
    _replayed: dict[Site, int] = field(default_factory=dict)
    """Replays since the last first pass."""

    def know(self, model: nn.Module) -> None:
        self._names = _names(model)

    def begin(self) -> None:
        """The next forward is the first of a step."""
        self._calls.clear()
        self._replayed.clear()

    def decision(self, func: Any, args: Sequence[Any], result: Any) -> tuple[Any, ...] | None:
        """What the op hands out this time, as in a tape; None where nothing was recorded and nothing can be assumed.

        Args:
            result: what the fake op handed out, or None where it needs the decision to know the shape.
        """
        site = (_module(self._names), str(func))
        recorded = self.tape.decisions.get(site, ()) if self.tape else ()
        if not recorded:
            with no_dispatch():
                even = _even(func, args, result)
            if even is not None:
                self.assumed.add(site)
            return even
        return recorded[self._which(site, len(recorded)) % len(recorded)]

    def _which(self, site: Site, recorded: int) -> int:
        calls = self._calls.get(site, 0)
        if not in_replay():
            self._calls[site], self._replayed[site] = calls + 1, 0
            return calls
        # Backward meets the calls of a micro-batch from the last to the first; a module that decides once has one.
        assert self.tape is not None
        per_batch = max(recorded // self.tape.micro_batches, 1)
        back = self._replayed.get(site, 0)
        self._replayed[site] = back + 1
        return calls - 1 - back % per_batch


def record_routing(step: TrainingStep) -> Tape:
    """Runs the forwards of one step, without gradients, and keeps what the model decides.

    Buffers that a forward in training mode changes, such as BatchNorm's, are changed. The random number generator is
    put back.
    """
    recorder = _Recorder(_names(step.model))
    with torch.random.fork_rng(devices=[step.device] if step.device.type == "cuda" else []), torch.no_grad(), recorder:
        for batch in step.batches:
            step.forward(batch)
    return Tape(decisions=recorder.decisions, micro_batches=len(step.batches))


class _Recorder(TorchDispatchMode):
    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__()
        self.decisions: dict[Site, list[tuple[Any, ...]]] = {}
        self._names = names

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if decides(func):
            handed_out = result if isinstance(result, (tuple, list)) else (result,)
            kept = tuple(_kept(value) for value in handed_out)
            self.decisions.setdefault((_module(self._names), str(func)), []).append(kept)
        return result


def _kept(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return None if value.is_floating_point() or value.is_complex() else value.detach().cpu().clone()


def _names(model: nn.Module) -> dict[int, str]:
    return {id(module): name for name, module in model.named_modules()}


def _module(names: Mapping[int, str]) -> str:
    """The innermost module of the model whose method runs now. Looked up in the frames, since decisions are few and
    a replay enters a region below the hooks of its unit."""
    frame = sys._getframe(2)
    while frame is not None:
        owner = None
        if "self" in frame.f_code.co_varnames[:1]:
            variables = frame.f_locals
            owner = variables.get("self")
            if sys.version_info < (3, 13):  # a copy, which the frame keeps, and with it every tensor that it names
                variables.clear()
        if isinstance(owner, nn.Module) and id(owner) in names:
            return names[id(owner)]
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def _even(func: Any, args: Sequence[Any], result: Any) -> tuple[Any, ...] | None:
    """Choices dealt out in turn, so that every column is chosen as often as every other."""
    dim = _CHOICES.get(func)
    if dim is None or result is None:
        return None
    along = args[dim] if len(args) > dim and args[dim] is not None else -1
    handed_out = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(None if leaf.is_floating_point() else _dealt(args[0], leaf, along) for leaf in handed_out)


def _dealt(source: torch.Tensor, indices: torch.Tensor, along: int) -> torch.Tensor:
    def numbered(shape: Sequence[int]) -> torch.Tensor:
        return torch.arange(math.prod(shape)).reshape(list(shape)) % source.shape[along]

    if indices.dim() != source.dim():  # one choice a row, its dimension gone
        return numbered(indices.shape).to(indices.dtype)
    shape = list(indices.shape)
    shape.append(shape.pop(along))
    return numbered(shape).movedim(-1, along).to(indices.dtype)
