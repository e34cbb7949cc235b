"""What some optimizer steps, and one forward without a backward, came to."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from bench.audit.seeds import seed_digests
from bench.audit.subject import Subject
from bench.audit.world import Readings, read_world
from bench.measure.out_of_memory import is_out_of_memory
from bench.step.state import to_host

AFTER_STEPS, AFTER_FORWARD = "after the steps", "after a forward without a backward"
Gradients = Mapping[str, torch.Tensor | None]


@dataclass(frozen=True, kw_only=True)
class Moment:
    """State between two steps."""

    buffers: Mapping[str, torch.Tensor]
    world: Readings
    seeds: Mapping[str, str]


@dataclass(kw_only=True)
class Outcome:
    """Filled while the steps run; what an exception left out stays empty. Tensors are copies in host memory."""

    start: Readings = field(default_factory=dict)
    losses: list[torch.Tensor | None] = field(default_factory=list)
    """One a step; None where the step returned none."""
    gradients: list[Gradients] = field(default_factory=list)
    """One a call of an optimizer: parameter name → gradient as the optimizer saw it, None where it is missing."""
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    moments: dict[str, Moment] = field(default_factory=dict)
    """AFTER_STEPS and AFTER_FORWARD."""
    structures: dict[str, set[str]] = field(default_factory=dict)
    """Module path → types of what its calls returned."""
    warnings: set[str] = field(default_factory=set)
    error: Exception | None = None
    eps: float = 0.0
    """Of the least precise dtype that the model computes in."""
    is_wrapped: bool = False
    """As the subject was."""


def run_steps(subject: Subject, steps: int) -> Outcome:
    """Runs the subject from where it is.

    Raises:
        RuntimeError: out of memory, which says nothing about the step; any other exception is part of the outcome.
    """
    if is_compiled(subject.model):
        torch._dynamo.reset()  # compiled code belongs to the source line, and models compiled otherwise would share it
    start = read_world(subject.model, subject.names, subject.roots)
    outcome = Outcome(start=start, is_wrapped=subject.is_wrapped)
    dtypes = {p.dtype for p in subject.model.parameters() if p.is_floating_point()}
    with _warnings_noted(outcome), _gradients_noted(subject, outcome), _structures_noted(subject, outcome, dtypes):
        try:
            for _ in range(steps):
                loss = subject.run()
                outcome.losses.append(to_host(loss) if isinstance(loss, torch.Tensor) else None)
                del loss
            outcome.parameters = {n: to_host(p) for n, p in subject.names.parameters(subject.model)}
            outcome.moments[AFTER_STEPS] = _moment(subject)
            subject.forward()
            outcome.moments[AFTER_FORWARD] = _moment(subject)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            outcome.error = error
    outcome.eps = max((torch.finfo(dtype).eps for dtype in dtypes), default=0.0)
    return outcome


def _moment(subject: Subject) -> Moment:
    buffers = {
        (f"{path}.{key}" if path else key): to_host(buffer)
        for name, module in subject.model.named_modules()
        for path in [subject.names.module(name, module)]
        for key, buffer in module._buffers.items()
        if buffer is not None
    }
    return Moment(buffers=buffers, world=read_world(subject.model, subject.names, subject.roots), seeds=seed_digests())


@contextmanager
def _warnings_noted(outcome: Outcome) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    outcome.warnings = {f"{w.category.__name__}: {' '.join(str(w.message).split())}" for w in caught}


@contextmanager
def _gradients_noted(subject: Subject, outcome: Outcome) -> Iterator[None]:
    def note(*_: Any) -> None:
        named = subject.names.parameters(subject.model)
        outcome.gradients.append({n: None if p.grad is None else to_host(p.grad) for n, p in named if p.requires_grad})

    handles = [optimizer.register_step_pre_hook(note) for optimizer in subject.optimizers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _structures_noted(subject: Subject, outcome: Outcome, dtypes: set[torch.dtype]) -> Iterator[None]:
    if is_compiled(subject.model):  # a hook would become part of what is compiled
        yield
        return

    def note(module: nn.Module, _args: Any, output: Any) -> None:
        path = subject.names.of_module(module)
        if path is not None:
            outcome.structures.setdefault(path, set()).add(structure(output))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                dtypes.add(torch.get_autocast_dtype(device))

    handle = register_module_forward_hook(note)
    try:
        yield
    finally:
        handle.remove()


def is_compiled(model: nn.Module) -> bool:
    return any(hasattr(m, "_orig_mod") or m._compiled_call_impl is not None for m in model.modules())


def structure(value: Any, depth: int = 0) -> str:
    """Types of a value and of what it holds: `Pair(Tensor, Tensor)`."""
    name = type(value).__name__
    if isinstance(value, torch.Tensor):
        return "Tensor"
    if depth < 4 and isinstance(value, Mapping):
        return f"{name}({', '.join(f'{key}: {structure(item, depth + 1)}' for key, item in value.items())})"
    if depth < 4 and isinstance(value, (tuple, list)):
        return f"{name}({', '.join(structure(item, depth + 1) for item in value)})"
    return name
