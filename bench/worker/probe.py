"""`python -m bench.worker.probe`: controls as JSON on stdin; facts, chains and module names on stdout.

The model is built on fake tensors: its structure and the kernels that attention takes are read without its memory.
Where fake tensors cannot follow its forward, one small real batch is run instead.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.measure import OpCounter
from bench.measure.environment import capacity_bytes, device_name, library_versions
from bench.placement.fingerprint import fingerprint_of
from bench.placement.policy import known_ops
from bench.spec import Controls, Facts, SpecError, to_mapping
from bench.step import TrainingStep, UnsupportedControlsError, build_training_step, load_family
from bench.step.optimizer import runs_fused
from bench.worker.answering import answer_question
from bench.worker.setup import torch_device


def device_facts(controls: Controls, device: torch.device, attention_kernels: tuple[str, ...] = ()) -> Facts:
    family = load_family(controls.model)
    return Facts(
        device_name=device_name(device),
        versions=library_versions(family.libraries) | dict(family.sources),
        attention_kernels=attention_kernels,
        fused_optimizer=runs_fused(controls.optimizer, device),
    )


def probe(controls: Controls) -> dict[str, Any]:
    """Raises SpecError for settings that model, workload or optimizer refuse."""
    device = torch_device(controls)
    model, kernels = _structure(controls, device)
    return {
        "facts": to_mapping(device_facts(controls, device, kernels)),
        "chains": to_mapping(load_family(controls.model).chains(model)),
        "modules": [name for name, _ in model.named_modules() if name],
        "ops": known_ops(),
        "fingerprint": fingerprint_of(model).recorded(),
        "capacity_bytes": capacity_bytes(device),
    }


REAL_MICRO_BATCH = 2
"""Samples of the forward that is run for real; no attention kernel is chosen by the number of samples."""


def _structure(controls: Controls, device: torch.device) -> tuple[torch.nn.Module, tuple[str, ...]]:
    """The plain model on fake tensors, and the attention kernels that its forward takes; none where the precision is
    not supported, which each placement's outcome will say."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            try:
                step = build_training_step(controls, device)
            except UnsupportedControlsError:
                with device:
                    return load_family(controls.model).build(**controls.model.settings), ()
            return step.model, _attention_kernels(step)
    except RuntimeError:
        # A constructor that reads values (`torch.linspace(…).item()`), shapes that depend on data (routed tokens), or
        # an op whose fake kernel knows less than the real one.
        try:
            step = build_training_step(_with_small_batch(controls), device)
        except SpecError:  # a batch that has one size only
            step = build_training_step(controls, device)
        return step.model, _attention_kernels(step)


def _attention_kernels(step: TrainingStep) -> tuple[str, ...]:
    with OpCounter() as counter:
        step.forward()
    return tuple(counter.attention_ops)


def _with_small_batch(controls: Controls) -> Controls:
    micro_batch = min(REAL_MICRO_BATCH, controls.workload.micro_batch)
    return dataclasses.replace(controls, workload=dataclasses.replace(controls.workload, micro_batch=micro_batch))


if __name__ == "__main__":
    raise SystemExit(answer_question(Controls, probe, "the model cannot be built"))
