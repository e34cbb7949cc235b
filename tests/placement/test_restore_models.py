"""@restore on a convolutional net of the zoo: BatchNorm's statistics, and with them all else, are the plain step's."""

from __future__ import annotations

import functools

import pytest
import torch

from bench.cli.entry import config_folder
from bench.placement import generate_placements, parse_placement
from bench.placement.applying import apply
from bench.placement.wiring import Wiring, record_wiring
from bench.spec import PRECISIONS
from bench.step import StepState, TrainingStep, build_training_step, load_family
from bench.step.build import OPTIMIZER
from bench.step.precision import unsupported_precision
from tests.models.family_checks import FamilyCase
from tests.models.test_vision_train import CASES
from tests.trace.test_accuracy import errors

CPU = torch.device("cpu")
STEPS = 3
BATCH_NORM = {name: CASES[name] for name in ("resnet50", "densenet")}
"""DenseNet's layers concatenate inside themselves, and its norms come first."""


def restored_texts(name: str) -> list[str]:
    """The placements that the nets' configs choose by default, with @restore on every region."""
    from omegaconf import OmegaConf

    options = OmegaConf.to_container(OmegaConf.load(config_folder() / "placements" / "convolutional-default.yaml"))
    family = load_family(BATCH_NORM[name].controls().model)
    chains = family.chains(family.build(**BATCH_NORM[name].settings))
    entries = generate_placements(options, chains)  # type: ignore[arg-type]
    return [parse_placement(entry.text).restored().text for entry in entries]


PAIRS = [(name, text) for name in BATCH_NORM for text in restored_texts(name)]


def seen_after(step: TrainingStep) -> dict[str, torch.Tensor]:
    """Losses, gradients of each step, parameters, buffers and the RNG state that `STEPS` steps leave behind."""
    seen: dict[str, torch.Tensor] = {}
    for number in range(STEPS):

        def on_phase(name: str, number: int = number) -> None:
            if name == OPTIMIZER:
                named = step.model.named_parameters()
                seen.update({f"gradient {number} {n}": p.grad.clone() for n, p in named if p.grad is not None})

        seen[f"loss {number}"] = step.run(on_phase).clone()
    seen |= {f"parameter {n}": p.detach().clone() for n, p in step.model.named_parameters()}
    seen |= {f"buffer {n}": b.clone() for n, b in step.model.named_buffers()}
    return seen | {"rng": torch.get_rng_state()}


def differing(seen: dict[str, torch.Tensor], plain: dict[str, torch.Tensor]) -> list[str]:
    assert seen.keys() == plain.keys()
    return [name for name, value in plain.items() if not torch.equal(seen[name], value)]


@functools.cache
def plain_step(name: str, precision: str = "fp32") -> tuple[TrainingStep, StepState, Wiring, dict[str, torch.Tensor]]:
    case: FamilyCase = BATCH_NORM[name]
    step = build_training_step(case.controls(precision), CPU)
    step.run()  # makes the optimizer's state
    texts = restored_texts(name)
    units = {unit for text in texts for region in parse_placement(text).regions for unit in region.units}
    wiring = record_wiring(step.model, sorted(units), step.forward)
    state = StepState(step)
    return step, state, wiring, seen_after(step)


@pytest.mark.parametrize(("name", "text"), PAIRS, ids=[f"{name} {text[:80]}" for name, text in PAIRS])
def test_every_default_placement_is_the_plain_step(name: str, text: str) -> None:
    step, state, wiring, plain = plain_step(name)
    state.restore(step)
    with apply(step.model, text, wiring=wiring) as applied:
        seen = seen_after(step)
    assert differing(seen, plain) == []
    assert all(counts.replays for _, counts in applied.counts)


def test_without_it_the_statistics_move_twice() -> None:
    step, state, wiring, plain = plain_step("resnet50")
    state.restore(step)
    text = next(text for _, text in PAIRS if text != "none").replace("@restore", "")
    with apply(step.model, text, wiring=wiring):
        names = differing(seen_after(step), plain)
    assert names
    assert all("normalization" in name and name.startswith("buffer") for name in names)


@pytest.mark.parametrize("precision", [p for p in PRECISIONS if not unsupported_precision(p, CPU)])
def test_it_is_the_plain_step_in_every_precision(precision: str) -> None:
    text = restored_texts("resnet50")[1]
    step, state, wiring, plain = plain_step("resnet50", precision)
    state.restore(step)
    with apply(step.model, text, wiring=wiring):
        assert differing(seen_after(step), plain) == []


def test_copies_of_statistics_are_forecast_to_the_byte() -> None:
    only = ("placements.every=[]", "placements.policies=[]", "placements.options=[restore]")
    found = errors("model=resnet50-tiny", *only)
    assert [error for error, _ in found.values()] == [0] * len(found)
    plain, each, restored = (movable for _, movable in found.values())
    assert each < restored < plain
