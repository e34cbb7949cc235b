"""A span: consecutive units replayed as one region, while the model's own loop runs unchanged.

When the loop calls the first member, all members run inside one checkpoint, connected as recorded; when it calls the
others, each call is held against the record and answered with what is already there. The members' outputs wait for
their call only during the forward; that never sets the peak, since replay rebuilds at least as much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from bench.placement.errors import UnsupportedPlacementError, WiringChangedError
from bench.placement.region_forward import PlacedForward, RegionCounts, checkpointed
from bench.placement.types import Region
from bench.placement.wiring import IMMUTABLE, Token, UnitCall, Wiring


@dataclass(frozen=True)
class FromInput:
    """A leaf that the first member got."""

    leaf: int


@dataclass(frozen=True)
class FromOutput:
    """A leaf that an earlier member handed out."""

    member: int
    leaf: int


@dataclass(frozen=True, kw_only=True)
class MemberPlan:
    """Where each argument leaf of a member comes from, and what its output leaves are: made by it (FromOutput of
    itself), passed on (FromInput, FromOutput of an earlier member), or a constant."""

    unit: str
    arguments: tuple[Any, ...]
    argument_spec: TreeSpec
    argument_names: tuple[str, ...]
    outputs: tuple[Any, ...]
    output_spec: TreeSpec

    def __deepcopy__(self, memo: dict[int, Any]) -> MemberPlan:
        return self  # immutable: a copy of the model may share it


def plan_span(region: Region, wiring: Wiring) -> tuple[MemberPlan, ...]:
    """Raises UnsupportedPlacementError where the units cannot be replayed as one region."""
    calls = [_only_call(region, wiring, unit) for unit in region.units]
    positions = [wiring.positions(unit)[0] for unit in region.units]
    if positions != sorted(positions):
        raise _unsupported(region, f"the model runs its units in another order than {', '.join(region.units)}")
    first_inputs = {leaf: index for index, leaf in reversed(list(enumerate(calls[0].arguments))) if _is_token(leaf)}
    plans: list[MemberPlan] = []
    produced: dict[Token, FromOutput] = {}
    for member, call in enumerate(calls):
        if member:
            _nothing_between(region, calls[member - 1], call)
        arguments = tuple(
            _source(region, call, index, leaf, first_inputs, produced if member else {})
            for index, leaf in enumerate(call.arguments)
        )
        outputs: list[Any] = []
        for index, leaf in enumerate(call.outputs):
            if not _is_token(leaf):
                outputs.append(leaf)
                continue
            if leaf in first_inputs:
                outputs.append(FromInput(first_inputs[leaf]))
            else:
                outputs.append(produced.get(leaf, FromOutput(member, index)))
            produced.setdefault(leaf, FromOutput(member, index))
        plans.append(
            MemberPlan(
                unit=call.unit,
                arguments=arguments,
                argument_spec=call.argument_spec,
                argument_names=call.argument_names,
                outputs=tuple(outputs),
                output_spec=call.output_spec,
            )
        )
    return tuple(plans)


def _only_call(region: Region, wiring: Wiring, unit: str) -> UnitCall:
    positions = wiring.positions(unit)
    if len(positions) != 1:
        raise _unsupported(region, f"{unit} is called {len(positions)} times in a forward, a span needs exactly one")
    return wiring.calls[positions[0]]


def _nothing_between(region: Region, before: UnitCall, call: UnitCall) -> None:
    if before.autocast != call.autocast:
        raise _unsupported(region, f"the model runs {before.unit} and {call.unit} under different autocast settings")
    if before.rng_at_exit != call.rng_at_entry:
        raise _unsupported(region, f"the model draws random numbers between {before.unit} and {call.unit}")
    changed = [t for t, version in before.versions_at_exit.items() if call.versions_at_entry.get(t, version) != version]
    if changed:
        raise _unsupported(region, f"the model changes a tensor in place between {before.unit} and {call.unit}")


def _source(
    region: Region,
    call: UnitCall,
    index: int,
    leaf: Any,
    first_inputs: dict[Token, int],
    produced: dict[Token, FromOutput],
) -> Any:
    if not _is_token(leaf):
        return leaf
    if leaf in produced:
        return produced[leaf]
    if leaf in first_inputs:
        return FromInput(first_inputs[leaf])
    raise _unsupported(
        region,
        f"{call.argument_names[index]} of {call.unit} is neither an output of an earlier unit of the span "
        f"nor an input of {region.units[0]}",
    )


def _is_token(leaf: Any) -> bool:
    return isinstance(leaf, Token)


def _unsupported(region: Region, why: str) -> UnsupportedPlacementError:
    name = f"{region.units[0]}..{region.units[-1]}"
    return UnsupportedPlacementError(
        f"span {name} cannot be replayed as one region: {why}; make them regions of their own"
    )


class Span:
    """The state that the members of one span share: their forwards, and outputs that wait for their call."""

    def __init__(self, region: Region, plans: tuple[MemberPlan, ...]) -> None:
        self.region = region
        self.plans = plans
        self.inner: list[Callable[..., Any]] = []
        self.units: list[nn.Module] = []
        self.is_trained = False
        self.counts = RegionCounts()
        self.inputs: list[Any] = []
        self.outputs: list[list[Any]] = []
        self.versions: dict[int, int] = {}
        self.next = 0
        """Member whose call is expected; 0 outside a forward."""

    def run_all(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._release()  # of a forward that an exception, or an enclosing replay's early stop, left unfinished
        leaves, spec = tree_flatten((args, kwargs))
        self._check_first(leaves, spec)
        made = checkpointed(self.region, self.counts, self._run_members, leaves, self.is_trained, self.units)
        self._hand_out(leaves, iter(made))
        return self._answer(0)

    def without_gradients(self, member: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The plain call; but not in the middle of a forward that began with gradients."""
        if member and self.next == member:
            self._changed(self.plans[member], "the gradient mode")
        return self.inner[member](*args, **kwargs)

    def answer(self, member: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plan = self.plans[member]
        if member != self.next:
            expected = self.plans[self.next].unit
            self._release()
            raise WiringChangedError(f"{plan.unit} was called where the recorded forward calls {expected}")
        leaves, spec = tree_flatten((args, kwargs))
        if spec != plan.argument_spec:
            self._changed(plan, "its arguments")
        for index, (leaf, source) in enumerate(zip(leaves, plan.arguments, strict=True)):
            if not self._is_as_recorded(leaf, source):
                self._changed(plan, plan.argument_names[index])
        return self._answer(member)

    def _run_members(self, leaves: list[Any]) -> tuple[torch.Tensor, ...]:
        """All members on the first one's argument leaves; returns the output tensors that they make, in order."""
        outputs: list[list[Any]] = []
        made: list[torch.Tensor] = []
        for member, (inner, plan) in enumerate(zip(self.inner, self.plans, strict=True)):
            filled = [_fill(source, leaves, outputs) for source in plan.arguments]
            args, kwargs = tree_unflatten(filled, plan.argument_spec)
            values, spec = tree_flatten(inner(*args, **kwargs))
            if spec != plan.output_spec:
                self._changed(plan, "its output structure")
            outputs.append(values)
            for index, (value, out) in enumerate(zip(values, plan.outputs, strict=True)):
                if out == FromOutput(member, index):
                    made.append(value)
                elif not (_equal(value, out) if _is_constant(out) else value is _fill(out, leaves, outputs)):
                    self._changed(plan, f"output {index}")
        return tuple(made)

    def _hand_out(self, leaves: list[Any], made: Any) -> None:
        self.inputs = leaves
        for member, plan in enumerate(self.plans):
            values: list[Any] = []
            self.outputs.append(values)
            for index, out in enumerate(plan.outputs):
                own = out == FromOutput(member, index)
                values.append(next(made) if own else _fill(out, leaves, self.outputs))
        alive = [*leaves, *(value for values in self.outputs for value in values)]
        self.versions = {id(value): value._version for value in alive if isinstance(value, torch.Tensor)}

    def _answer(self, member: int) -> Any:
        plan = self.plans[member]
        result = tree_unflatten(self.outputs[member], plan.output_spec)
        self.next = member + 1
        if self.next == len(self.plans):
            self._release()
        return result

    def _check_first(self, leaves: list[Any], spec: TreeSpec) -> None:
        plan = self.plans[0]
        if spec != plan.argument_spec:
            self._changed(plan, "its arguments")
        for index, (leaf, source) in enumerate(zip(leaves, plan.arguments, strict=True)):
            same = isinstance(source, FromInput) and leaf is leaves[source.leaf]
            if not (same or (_is_constant(source) and _equal(leaf, source))):
                self._changed(plan, plan.argument_names[index])

    def _is_as_recorded(self, leaf: Any, source: Any) -> bool:
        if _is_constant(source):
            return _equal(leaf, source)
        expected = _fill(source, self.inputs, self.outputs)
        if leaf is not expected:
            return False
        return not isinstance(leaf, torch.Tensor) or leaf._version == self.versions[id(leaf)]

    def _changed(self, plan: MemberPlan, what: str) -> None:
        self._release()
        raise WiringChangedError(
            f"{what} of {plan.unit} is not what the recorded forward gave it; "
            "apply the placement with a forward like those it will train with, or make the units regions of their own"
        )

    def _release(self) -> None:
        self.inputs, self.outputs, self.versions, self.next = [], [], {}, 0


class MemberForward(PlacedForward):
    """The forward of one member of a span."""

    def __init__(self, span: Span, member: int, unit: nn.Module, switches: Mapping[str, nn.Module]) -> None:
        super().__init__(unit, switches)
        self.span = span
        self.member = member
        span.inner.append(self.inner)
        span.units.append(unit)
        span.is_trained |= self.is_trained

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.span.without_gradients(self.member, args, kwargs)
        self.refuse_switched_on()
        if self.member == 0:
            return self.span.run_all(args, kwargs)
        return self.span.answer(self.member, args, kwargs)


def _fill(source: Any, inputs: list[Any], outputs: list[list[Any]]) -> Any:
    if isinstance(source, FromInput):
        return inputs[source.leaf]
    if isinstance(source, FromOutput):
        return outputs[source.member][source.leaf]
    return source


def _is_constant(source: Any) -> bool:
    return not isinstance(source, (FromInput, FromOutput))


def _equal(value: Any, recorded: Any) -> bool:
    return isinstance(value, IMMUTABLE) and type(value) is type(recorded) and bool(value == recorded)
