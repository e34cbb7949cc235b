"""Checks of controls that types cannot express; each error names the option as it was written."""

from __future__ import annotations

from bench.spec.controls import PRECISIONS, Controls, ProtocolSpec
from bench.spec.errors import SpecError
from bench.spec.study import Caps

OPTIMIZERS = ("adamw", "sgd")
DEVICE_KINDS = ("cpu", "cuda")
LENGTHS = ("fixed", "variable")
PROCESSES = ("shared", "fresh")
ZERO_GRAD_PLACES = ("start", "end")


def validate_controls(controls: Controls) -> None:
    """Raises SpecError for the first control that is out of its range."""
    _one_of("precision", controls.precision, PRECISIONS)
    _one_of("optimizer.name", controls.optimizer.name, OPTIMIZERS)
    _one_of("device.kind", controls.device.kind, DEVICE_KINDS)
    _one_of("workload.lengths", controls.workload.lengths, LENGTHS)
    _one_of("recipe.zero_grad", controls.recipe.zero_grad, ZERO_GRAD_PLACES)
    _at_least("workload.micro_batch", controls.workload.micro_batch, 1)
    _at_least("workload.accumulation", controls.workload.accumulation, 1)
    for name, size in controls.workload.shape.items():
        _at_least(f"workload.shape.{name}", size, 1)
    _at_least("device.threads", controls.device.threads, 1)
    _at_least("device.index", controls.device.index, 0)
    if controls.device.memory_limit_bytes is not None:
        _at_least("device.memory_limit_bytes", controls.device.memory_limit_bytes, 1)
    if controls.recipe.clip_norm is not None and not controls.recipe.clip_norm > 0:
        raise SpecError(f"recipe.clip_norm: must be above 0, got {controls.recipe.clip_norm}")
    validate_protocol(controls.protocol)
    if controls.parallelism.world_size != 1:
        raise SpecError(
            f"parallelism.world_size: only 1 runs today, got {controls.parallelism.world_size}; use parallelism=single"
        )


def validate_caps(caps: Caps) -> None:
    """Raises SpecError for a cap that leaves no time at all."""
    for name, seconds in (("time_cap_s", caps.time_cap_s), ("sample_timeout_s", caps.sample_timeout_s)):
        if seconds is not None and not seconds > 0:
            raise SpecError(f"caps.{name}: must be above 0, got {seconds}")


def validate_protocol(protocol: ProtocolSpec) -> None:
    """Raises SpecError for the first field that is out of its range."""
    _one_of("protocol.process", protocol.process, PROCESSES)
    _at_least("protocol.executions", protocol.executions, 1)
    _at_least("protocol.rounds_min", protocol.rounds_min, 1)
    _at_least("protocol.rounds_max", protocol.rounds_max, protocol.rounds_min)
    _at_least("protocol.steps_per_sample", protocol.steps_per_sample, 1)
    _at_least("protocol.settle_steps", protocol.settle_steps, 0)
    _at_least("protocol.warmup_steps_min", protocol.warmup_steps_min, 0)
    _at_least("protocol.warmup_steps_max", protocol.warmup_steps_max, protocol.warmup_steps_min)
    if not 0 < protocol.target_half_width < 1:
        raise SpecError(f"protocol.target_half_width: a share between 0 and 1, got {protocol.target_half_width}")
    if protocol.confidence != 0.95:
        raise SpecError(f"protocol.confidence: only 0.95 is supported, got {protocol.confidence}")


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SpecError(f"{option}: {value!r} is not one of {', '.join(allowed)}")


def _at_least(option: str, value: int, bound: int) -> None:
    if value < bound:
        raise SpecError(f"{option}: must be at least {bound}, got {value}")
