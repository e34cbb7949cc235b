"""The model of a study on tensors without memory, and what forecasts its steps."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.measure.machine import machine_facts
from bench.spec import ChainInfo, Controls, Facts, SpecError
from bench.step import UnsupportedControlsError, build_training_step, load_family
from bench.target.spec import Target, target_from
from bench.target.step import TargetStep
from bench.trace.fake import FakeStep
from bench.trace.forecast import Forecaster
from bench.trace.routing import Routing, record_routing
from bench.trace.workspaces import Rehearsals
from bench.worker.checked import Roofline
from bench.worker.failure import outcome_of
from bench.worker.probe import device_facts
from bench.worker.setup import torch_device

SHARE_OF_FREE_MEMORY = 0.4
"""Of the memory that is available, what the parameters of a model may take that is built to see what it decides."""
MakeForecaster = Callable[[Sequence[str]], Forecaster]


@dataclass(frozen=True, kw_only=True)
class FakeModel:
    chains: tuple[ChainInfo, ...]
    modules: tuple[str, ...]
    """Qualified names."""
    facts: Facts | None
    """Of the device at hand; None where the step is forecast for another."""
    forecaster: MakeForecaster | None = None
    """Units that placements name → what forecasts their steps; None where fake tensors cannot follow the model."""
    problem: str = ""
    """Why they cannot."""
    roofline: Roofline | None = None
    """Milliseconds that a recorded step takes at least; None but for a target."""
    notes: Callable[[], tuple[str, ...]] = tuple
    """Asked when all is forecast: sentences on what is not in it."""


def fake_model(controls: Controls) -> FakeModel:
    """For the controls' own device.

    Raises:
        SpecError: the device is not there, or the model or its settings are refused.
    """
    device = torch_device(controls)
    facts = device_facts(controls, device)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        # A GPU that is here is forecast as one that is not: so the same code is held against measurements.
        return dataclasses.replace(_on_target(controls, target_like(properties)), facts=facts)
    torch.set_num_threads(controls.device.threads)
    try:
        fake, notes = followed(controls, device)
    except SpecError:
        raise
    except Exception as error:  # whatever a model's code does with tensors that hold nothing
        return _not_followed(controls, error, facts)
    rehearsals = Rehearsals()
    return dataclasses.replace(
        _described(controls, fake.step.model, facts),
        forecaster=partial(Forecaster, fake, model=controls.model.name, workspace=rehearsals),
        notes=lambda: (*notes, *_skipped(rehearsals.skipped)),
    )


def target_model(controls: Controls, target: Mapping[str, Any]) -> FakeModel:
    """For a GPU that need not be here; in a process of its own, since PyTorch cannot take its stand-in away again.

    Raises:
        SpecError: the target's figures cannot be, or the model or its settings are refused.
    """
    return _on_target(controls, target_from(target))


def target_like(properties: Any) -> Target:
    """The device that `torch.cuda.get_device_properties` tells of, as far as memory depends on it. Its rates are not
    known, so nothing is said of time."""
    return Target(
        name="here",
        device_name=properties.name,
        memory_bytes=properties.total_memory,
        compute_capability=(properties.major, properties.minor),
        num_multiprocessors=properties.multi_processor_count,
        bandwidth_bytes_per_s=float("inf"),
        peak_flops_per_s={},
        context_bytes=0,
    )


def followed(controls: Controls, device: torch.device) -> tuple[FakeStep, tuple[str, ...]]:
    """The step on fake tensors. Where the model decides by its data, as a router of experts does, what it decides is
    recorded in one forward of the real model, if that fits; a note says which it was.

    Raises:
        whatever the model's code raises on tensors that hold nothing.
    """
    fake = FakeStep(controls, device)
    if not fake.routing.assumed:
        return fake, ()
    needed = sum(parameter.nbytes for parameter in fake.step.model.parameters())
    available = machine_facts(Path("/"), sorted(os.sched_getaffinity(0)))["memory_available_bytes"]
    if not isinstance(available, int) or SHARE_OF_FREE_MEMORY * available < needed:
        return fake, _taken_to_be_even(fake.routing)
    fake = FakeStep(controls, device, record_routing(build_training_step(controls, device)))
    return fake, ("what the model decides by its data is as in one forward of the real model",)


def _taken_to_be_even(routing: Routing) -> tuple[str, ...]:
    if not routing.assumed:
        return ()
    modules = sorted({module for module, _ in routing.assumed if module})
    where = f" (in {modules[0]} …)" if modules else ""
    return (f"what the model decides by its data is taken to be spread evenly{where}",)


def _on_target(controls: Controls, target: Target) -> FakeModel:
    try:
        step = TargetStep(controls, target)
    except SpecError:
        raise
    except Exception as error:
        return _not_followed(controls, error, None)
    return dataclasses.replace(
        _described(controls, step.fake.step.model, None),
        forecaster=step.forecaster,
        roofline=step.roofline_ms if target.peak_flops_per_s else None,
        notes=lambda: (*_taken_to_be_even(step.fake.routing), *step.notes()),
    )


def _not_followed(controls: Controls, error: Exception, facts: Facts | None) -> FakeModel:
    why = outcome_of(error)[1]
    problem = why if isinstance(error, UnsupportedControlsError) else f"fake tensors cannot follow this model: {why}"
    return dataclasses.replace(_described(controls, _model_alone(controls), facts), problem=problem)


def _skipped(skipped: Mapping[str, str]) -> tuple[str, ...]:
    named = [f"{op} ({why})" for op, why in skipped.items()]
    return (f"what these kernels take for themselves is not in the forecasts: {'; '.join(named)}",) if named else ()


def _described(controls: Controls, model: nn.Module, facts: Facts | None) -> FakeModel:
    return FakeModel(
        chains=load_family(controls.model).chains(model),
        modules=tuple(name for name, _ in model.named_modules() if name),
        facts=facts,
    )


def _model_alone(controls: Controls) -> nn.Module:
    """Its structure: without memory where its constructor can be followed, else as it is."""
    build, settings = load_family(controls.model).build, controls.model.settings
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return build(**settings)
    except RuntimeError:  # a constructor that reads values (`torch.linspace(…).item()`)
        return build(**settings)
