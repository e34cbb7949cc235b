"""What every family of the zoo is held against: whatever the placement, its optimizer steps are the plain ones.

Use it so, with one `FamilyCase` a model at test size (3 or 4 units a chain, width 32):

    @pytest.mark.parametrize("text", placement_texts(CASE))
    def test_every_placement_trains_like_the_plain_step(text: str) -> None:
        assert_trains_alike(CASE, text)

    @pytest.mark.parametrize("precision", PRECISIONS)
    def test_every_precision_trains_or_says_why_not(precision: str) -> None:
        assert_precision_trains_or_is_refused(CASE, precision)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import torch

from bench.placement import UnsupportedPlacementError, generate_placements, parse_placement
from bench.placement.applying import apply
from bench.placement.wiring import Wiring, record_wiring
from bench.spec import ChainInfo, Controls, ModelSpec, OptimizerSpec, WorkloadSpec
from bench.spec.controls import Settings
from bench.step import StepState, TrainingStep, UnsupportedControlsError, build_training_step, load_family
from bench.step.build import OPTIMIZER
from bench.step.precision import unsupported_precision
from bench.worker.effect import NoEffectError, check_effect
from tests.builders import make_controls
from tests.tiny_models import EVERY_GENERATOR

CPU = torch.device("cpu")
LEARNING_RATE = 1e-2
STEPS = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class FamilyCase:
    """A family at test size, and how its placements differ from a plain transformer's, if they do."""

    target: str
    """`models.llama`"""
    settings: Settings
    workload: WorkloadSpec
    refused: Mapping[str, str] = field(default_factory=dict)
    """Part of a placement's text → regular expression for what the refusal says. Such a placement must be refused."""
    no_effect: Mapping[str, str] = field(default_factory=dict)
    """Part of a placement's text → regular expression for why it changes nothing. It must still train alike."""
    rounded: tuple[str, ...] = ()
    """Parts of texts of placements that sum gradients in another order: equal to rounding, not to the bit."""

    def controls(self, precision: str = "fp32") -> Controls:
        return make_controls(
            model=ModelSpec(name="case", target=self.target, settings=self.settings),
            workload=self.workload,
            optimizer=OptimizerSpec(settings={"lr": LEARNING_RATE}),
            precision=precision,
            facts=None,
        )


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What `STEPS` optimizer steps from one state came to."""

    losses: list[torch.Tensor]
    gradients: list[dict[str, torch.Tensor | None]]
    """One dict a step: parameter name → gradient, as the optimizer saw it."""
    parameters: dict[str, torch.Tensor]
    rng_state: torch.Tensor


def placement_texts(case: FamilyCase) -> list[str]:
    """Every generator's placements, over every kind of submodule that the family names."""
    chains = _chains(case)
    kinds = sorted({kind for chain in chains for kind in chain.kinds})
    return [entry.text for entry in generate_placements({**EVERY_GENERATOR, "kinds": kinds}, chains)]


def assert_trains_alike(case: FamilyCase, text: str) -> None:
    """Losses, gradients, weights and RNG state of two optimizer steps under the placement are the plain ones', and
    its regions were replayed as predicted; or the placement is refused where `case` says so."""
    step, state, wiring, plain = _plain(case)
    state.restore(step)
    refusal = _of(case.refused, text)
    if refusal is not None:
        # Some refusals come with the wiring, others only at the call.
        with pytest.raises(UnsupportedPlacementError, match=refusal), apply(step.model, text, wiring=wiring):
            train(step)
        return
    with apply(step.model, text, wiring=wiring) as applied:
        placed = train(step)
    assert_same(placed, plain, exact=not any(part in text for part in case.rounded))
    nothing = _of(case.no_effect, text)
    if nothing is None:
        check_effect(applied, wiring, STEPS, case.workload.accumulation)
    else:
        with pytest.raises(NoEffectError, match=nothing):
            check_effect(applied, wiring, STEPS, case.workload.accumulation)


def assert_precision_trains_or_is_refused(case: FamilyCase, precision: str) -> None:
    """Two optimizer steps are finite and move weights, and are the same with every unit replayed; or this device cannot
    train so and says why."""
    controls = case.controls(precision)
    if unsupported_precision(precision, CPU):
        with pytest.raises(UnsupportedControlsError, match=precision):
            build_training_step(controls, CPU)
        return
    step = build_training_step(controls, CPU)
    before = {name: p.detach().clone() for name, p in step.model.named_parameters()}
    plain = train(step)
    assert step.optimizer_steps == STEPS
    assert all(math.isfinite(loss.item()) for loss in plain.losses)
    assert any(not torch.equal(before[name], value) for name, value in plain.parameters.items())
    again = build_training_step(controls, CPU)
    with apply(again.model, placement_texts(case)[1]):
        placed = train(again)
    assert_same(placed, plain, exact=True)


def train(step: TrainingStep) -> Trained:
    """`STEPS` optimizer steps from where `step` is."""
    gradients: list[dict[str, torch.Tensor | None]] = []

    def on_phase(name: str) -> None:
        if name == OPTIMIZER:
            named = step.model.named_parameters()
            gradients.append({name: None if p.grad is None else p.grad.clone() for name, p in named})

    losses = [step.run(on_phase).clone() for _ in range(STEPS)]
    return Trained(
        losses=losses,
        gradients=gradients,
        parameters={name: p.detach().clone() for name, p in step.model.named_parameters()},
        rng_state=torch.get_rng_state(),
    )


def assert_same(placed: Trained, plain: Trained, *, exact: bool) -> None:
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {}
    torch.testing.assert_close(placed.losses, plain.losses, **tolerance)
    for number, (got, expected) in enumerate(zip(placed.gradients, plain.gradients, strict=True)):
        assert got.keys() == expected.keys()
        for name, gradient in expected.items():
            where = f"gradient of {name} in step {number}"
            other = got[name]
            assert (other is None) == (gradient is None), where
            if gradient is not None and other is not None:
                torch.testing.assert_close(other, gradient, msg=lambda m, where=where: f"{where}: {m}", **tolerance)
    # AdamW divides a gradient by its own size, so one that is next to nothing may move a weight either way by a part of
    # the learning rate, and by how large a part depends on the CPU's kernels.
    moved = tolerance or {"rtol": 1.3e-6, "atol": 0.1 * LEARNING_RATE}
    torch.testing.assert_close(placed.parameters, plain.parameters, **moved)
    assert torch.equal(placed.rng_state, plain.rng_state)


@functools.cache
def _chains(case: FamilyCase) -> tuple[ChainInfo, ...]:
    family = load_family(case.controls().model)
    return family.chains(family.build(**case.settings))


@functools.cache
def _plain(case: FamilyCase) -> tuple[TrainingStep, StepState, Wiring, Trained]:
    """The step of a case, the state that all its measurements start from, and what the plain step makes of it."""
    step = build_training_step(case.controls(), CPU)
    step.run()  # makes the optimizer's state
    units = {
        unit for text in placement_texts(case) for region in parse_placement(text).regions for unit in region.units
    }
    wiring = record_wiring(step.model, sorted(units), step.forward)
    state = StepState(step)
    plain = train(step)
    assert all(math.isfinite(loss.item()) for loss in plain.losses)
    assert not torch.equal(plain.losses[0], plain.losses[1])
    return step, state, wiring, plain


def _of(reasons: Mapping[str, str], text: str) -> str | None:
    return next((reason for part, reason in reasons.items() if part in text), None)
