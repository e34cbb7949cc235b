"""What grows: the axis as a person names it, its sizes, and the controls at a size."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping

from bench.capacity.sizes import Sizes, divisors_of
from bench.capacity.types import BATCH, GLOBAL_BATCH, KEEPS, MODEL, SHAPE, Axis, CapacitySpec
from bench.spec import Controls, SpecError

MICRO_BATCH_PATH, ACCUMULATION_PATH = "workload.micro_batch", "workload.accumulation"
SHAPE_PATH, SETTING_PATH = "workload.shape.", "model.settings."
MULTIPLES = {"sequence_length": 64, "target_length": 64, "image_size": 32}
"""Sizes that kernels like, and that resolutions halved level by level need."""
WIDTH_PER_HEAD = 8
"""A head's width stays a multiple of it."""
WIDTH_DIVIDERS = ("groups", "head_width")
"""Settings of the zoo that a width must be a multiple of."""
GROWTH = 256
"""The search goes no further than so many times the start, unless it is told how far."""


def asked_axis(name: str, controls: Controls, multiple: int | None = None) -> Axis:
    """The axis called `name` in the controls: `micro-batch`, a size of the workload's shape (`sequence-length`), or any
    whole number of the model's settings (`layers`, `width`). A name that both shape and settings have, such as the size
    of a ViT's images, changes both.

    Args:
        multiple: sizes are multiples of it; None takes what is usual for the axis.

    Raises:
        SpecError: there is no such axis, naming close ones; or the multiple is none.
    """
    if multiple is not None and multiple < 1:
        raise SpecError(f"multiple: must be at least 1, got {multiple}")
    if name == "micro-batch":
        return Axis(name=name, path=MICRO_BATCH_PATH, multiple=multiple or 1, kind=BATCH)
    option = name.replace("-", "_")
    shape, settings = controls.workload.shape, _whole_numbers(controls)
    paths = [SHAPE_PATH + option] * (option in shape) + [SETTING_PATH + option] * (option in settings)
    if not paths:
        there = sorted({"micro-batch", *(key.replace("_", "-") for key in (*shape, *settings))})
        close = difflib.get_close_matches(name, there, n=2)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise SpecError(f"axis: no {name!r} in this workload and model; {hint}there are {', '.join(there)}")
    kind = MODEL if option in settings else SHAPE
    return Axis(
        name=name,
        path=paths[0],
        multiple=multiple or _usual_multiple(option, settings),
        kind=kind,
        also=tuple(paths[1:]),
    )


def start_size(axis: Axis, controls: Controls) -> int:
    """The axis's value in the controls."""
    return int(_value(controls, axis.path))


def bound_of(axis: Axis, controls: Controls, keep: str, largest: int | None) -> int:
    """How far the search goes.

    Raises:
        SpecError: `keep` is not one of KEEPS or does not suit the axis; or `largest` is below the smallest size.
    """
    if keep not in KEEPS:
        raise SpecError(f"keep: {keep!r} is not one of {', '.join(KEEPS)}")
    if largest is not None and largest < axis.multiple:
        raise SpecError(f"largest: {largest} is below the smallest size, {axis.multiple}")
    workload = controls.workload
    if keep == GLOBAL_BATCH:
        if axis.kind != BATCH:
            raise SpecError(f"keep: global-batch is for axis=micro-batch; along {axis.name} the batch stays anyway")
        whole = workload.micro_batch * workload.accumulation
        return whole if largest is None else min(whole, largest)
    if largest is not None:
        return largest
    start = start_size(axis, controls)
    positions = _whole_numbers(controls).get("positions")
    if axis.path == SHAPE_PATH + "sequence_length" and positions is not None:
        return max(axis.multiple, positions)
    return max(axis.multiple, GROWTH * start)


def sizes_of(spec: CapacitySpec) -> Sizes:
    """Raises SpecError where the search has no size at all."""
    divisors: tuple[int, ...] = ()
    if spec.keep == GLOBAL_BATCH:
        divisors = tuple(size for size in divisors_of(_global_batch(spec), spec.axis.multiple) if size <= spec.largest)
        if not divisors:
            raise SpecError(f"multiple: the global batch of {_global_batch(spec)} has no divisor that is one")
    return Sizes(multiple=spec.axis.multiple, largest=spec.largest, divisors=divisors)


def controls_at(spec: CapacitySpec, size: int) -> Controls:
    """The controls as asked, with the size; with `keep=global-batch` also with the accumulation that goes with it."""
    controls = spec.controls
    for path in (spec.axis.path, *spec.axis.also):
        controls = _with_value(controls, path, size)
    if spec.keep == GLOBAL_BATCH:
        controls = _with_value(controls, ACCUMULATION_PATH, accumulation_at(spec, size))
    return controls


def proof_controls_at(spec: CapacitySpec, size: int) -> Controls:
    """As `controls_at`, with every micro-batch as long as the longest may be: the worst batch of a training."""
    controls = controls_at(spec, size)
    return dataclasses.replace(controls, workload=dataclasses.replace(controls.workload, lengths="fixed"))


def accumulation_at(spec: CapacitySpec, size: int) -> int:
    """Micro-batches of one optimizer step."""
    if spec.keep == GLOBAL_BATCH:
        return _global_batch(spec) // size
    return spec.controls.workload.accumulation


def samples_at(spec: CapacitySpec, size: int) -> int:
    """That the optimizer sees in one step."""
    micro_batch = size if spec.axis.kind == BATCH else spec.controls.workload.micro_batch
    return micro_batch * accumulation_at(spec, size)


def _global_batch(spec: CapacitySpec) -> int:
    return spec.controls.workload.micro_batch * spec.controls.workload.accumulation


def _usual_multiple(option: str, settings: Mapping[str, int]) -> int:
    if option == "width":
        heads = settings.get("heads")
        parts = [WIDTH_PER_HEAD * heads] if heads else []
        return math.lcm(*parts, *(settings[name] for name in WIDTH_DIVIDERS if settings.get(name, 0) > 0))
    return MULTIPLES.get(option, 1)


def _whole_numbers(controls: Controls) -> dict[str, int]:
    """The model's settings that are whole numbers above 0."""
    settings = controls.model.settings
    return {
        name: value
        for name, value in settings.items()
        if isinstance(value, int) and not isinstance(value, bool) and value > 0
    }


def _value(controls: Controls, path: str) -> int:
    if path == MICRO_BATCH_PATH:
        return controls.workload.micro_batch
    if path.startswith(SHAPE_PATH):
        return controls.workload.shape[path.removeprefix(SHAPE_PATH)]
    value = controls.model.settings[path.removeprefix(SETTING_PATH)]
    assert isinstance(value, int)
    return value


def _with_value(controls: Controls, path: str, value: int) -> Controls:
    workload, model = controls.workload, controls.model
    if path.startswith(SETTING_PATH):
        settings = {**model.settings, path.removeprefix(SETTING_PATH): value}
        return dataclasses.replace(controls, model=dataclasses.replace(model, settings=settings))
    if path.startswith(SHAPE_PATH):
        shape = {**workload.shape, path.removeprefix(SHAPE_PATH): value}
        return dataclasses.replace(controls, workload=dataclasses.replace(workload, shape=shape))
    if path == ACCUMULATION_PATH:
        return dataclasses.replace(controls, workload=dataclasses.replace(workload, accumulation=value))
    return dataclasses.replace(controls, workload=dataclasses.replace(workload, micro_batch=value))
