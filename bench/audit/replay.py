"""`audit_replay`: the same for a person's own model and step, and for anything that claims to train as it does."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from bench.audit.audit import placed
from bench.audit.copying import copied
from bench.audit.judge import Replayed, judge
from bench.audit.names import Names
from bench.audit.options import AuditOptions
from bench.audit.plain import PlainSide, Trial
from bench.audit.subject import Subject
from bench.audit.verdict import Verdict
from bench.audit.words import RESTORE
from bench.placement.types import Placement
from bench.spec import SpecError
from bench.step.interface import Stateful
from bench.step.phases import until_backward

Transform = Callable[[nn.Module], nn.Module | None]
"""Model → what trains in its place; None where it changed the model itself."""
LEARNING_RATE = 0.01
"""Of the plain SGD that is stepped where only a loss is given."""


def audit_replay(
    model: nn.Module,
    step: Callable[..., Any],
    *,
    placement: Placement | str | None = None,
    replayed: Transform | None = None,
    baseline: Transform | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    state: Sequence[Stateful] = (),
    options: AuditOptions | None = None,
    name: str | None = None,
) -> Verdict:
    """Proves that training with `placement` on the model, or with what `replayed` makes of it, is training the plain
    model; or says where it is not. Afterwards model, optimizer, `state`, what `step` reaches and random generators are
    as they were; gradients are freed.

    Args:
        model: in the mode that it trains in, with nothing checkpointed.
        step: without `optimizer`, `step()` or `step(model)` computes the loss (a scalar that requires a gradient);
            backward and a step of plain SGD are taken here. With it, `step()`, `step(model)` or
            `step(model, optimizer)` runs one whole optimizer step and may return its loss.
        placement: what is put on the model.
        replayed: or what is made of a deep copy of it: transformers' `gradient_checkpointing_enable`, a wrapper around
            its blocks, `torch.compile`. `step` must then take the model, and the optimizer if there is one.
        baseline: what is made of the model before anything is held against it: where `replayed` compiles with a memory
            budget, compiling without one.
        optimizer: that `step` uses; several as a list, which `step` is given.
        state: what else the step changes: schedules, a GradScaler.
        name: of the wrapper in the verdict.

    Raises:
        SpecError: an argument is wrong.
        RuntimeError: out of memory.
    """
    if (placement is None) == (replayed is None):
        raise SpecError("audit_replay: give placement= or replayed=, one of them")
    optimizers: tuple[torch.optim.Optimizer, ...] = ()
    if optimizer is not None:
        optimizers = (optimizer,) if isinstance(optimizer, torch.optim.Optimizer) else tuple(optimizer)
    call = _Called(step, is_whole=bool(optimizers), single=isinstance(optimizer, torch.optim.Optimizer))
    if baseline is not None or replayed is not None:
        call.check_takes_model()
    names = Names(model)
    if baseline is not None:
        # A copy, so that the person's model is not compiled.
        model, optimizers = copied(model, optimizers, names)
        names = Names(model)
        model = baseline(model) or model
    plain = PlainSide(call.subject(model, optimizers, names, state), options or AuditOptions())
    if placement is not None:
        replaying = placed(plain.subject, placement, None)
        return judge(plain, replaying, name or str(placement), restores=RESTORE in str(placement))
    assert replayed is not None, "one of the two was given"
    return judge(plain, _transformed(plain.subject, call, replayed), name or _name(replayed))


def _transformed(plain: Subject, call: _Called, transform: Transform) -> Replayed:
    """A deep copy of the plain model as each trial starts, and what the transform makes of it."""

    @contextmanager
    def replayed(_trial: Trial) -> Iterator[Subject]:
        source = getattr(plain.model, "_orig_mod", plain.model)
        given = plain.optimizers if call.is_whole else ()
        model, optimizers = copied(source, given, plain.names)
        names = Names(model)
        wrapped = call.subject(transform(model) or model, optimizers, names, plain.others)
        yield dataclasses.replace(wrapped, is_wrapped=True)

    return replayed


class _Called:
    """A person's function, called with as much as it takes."""

    def __init__(self, function: Callable[..., Any], *, is_whole: bool, single: bool) -> None:
        self.function = function
        self.is_whole = is_whole
        self._single = single
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            parameters = ()  # type: ignore[assignment]
        empty = inspect.Parameter.empty
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._takes = sum(p.kind in positional and p.default is empty for p in parameters)

    def check_takes_model(self) -> None:
        wanted = 2 if self.is_whole else 1
        if self._takes != wanted:
            form = "step(model, optimizer)" if self.is_whole else "step(model)"
            raise SpecError(
                f"step: what is made of a copy of the model can only be trained where step is given it; write {form}"
                f", yours takes {self._takes}"
            )

    def subject(
        self, model: nn.Module, optimizers: tuple[torch.optim.Optimizer, ...], names: Names, state: Sequence[Stateful]
    ) -> Subject:
        if not self.is_whole:
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            if not trained:
                raise SpecError("model: none of its parameters requires a gradient, so there is nothing to train")
            optimizers = (torch.optim.SGD(trained, lr=LEARNING_RATE),)
        arguments = (model, optimizers[0] if self._single or not self.is_whole else list(optimizers))[: self._takes]

        def loss_step() -> torch.Tensor:
            loss = self.function(*arguments)
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
                raise SpecError(
                    f"step: it returned a {type(loss).__name__}; return the loss as a scalar tensor, or give optimizer="
                    " where it runs a whole step"
                )
            if any(parameter.grad is not None for parameter in model.parameters()):
                raise SpecError("step: it ran a backward of its own; say optimizer= for a step that is whole")
            loss.backward()
            optimizers[0].step()
            optimizers[0].zero_grad(set_to_none=True)
            return loss.detach()

        whole = self.function
        return Subject(
            model=model,
            optimizers=optimizers,
            run=(lambda: _loss_of(whole(*arguments))) if self.is_whole else loss_step,
            forward=(lambda: until_backward(lambda: whole(*arguments))) if self.is_whole else lambda: whole(*arguments),
            names=names,
            others=state,
            roots=(self.function,),
        )


def _loss_of(returned: Any) -> torch.Tensor | None:
    if isinstance(returned, torch.Tensor):
        return returned.detach()
    return torch.tensor(float(returned)) if isinstance(returned, (int, float)) else None


def _name(transform: Transform) -> str:
    return getattr(transform, "__name__", type(transform).__name__)
