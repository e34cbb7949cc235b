"""Where the vision families' batches come from: noise, or small real images drawn larger."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import numpy
import torch
from torch import nn

from bench.spec import SpecError, WorkloadSpec

SHAPE = ("image_size",)
DATA = ("synthetic", "images")
DIGIT_CLASSES = 10
BRIGHTEST = 16


def image_size(workload: WorkloadSpec, default: int) -> int:
    """Height and width of the workload's images, in pixels.

    Raises:
        SpecError: lengths are to vary. The size is refused by the family, which knows what its model takes.
    """
    if workload.lengths != "fixed":
        raise SpecError(f"workload.lengths: {workload.lengths} is for text; images have a fixed size, write fixed")
    return workload.shape.get("image_size", default)


def labelled_images(workload: WorkloadSpec, size: int, classes: int, generator: torch.Generator) -> dict[str, Any]:
    """`pixel_values` of shape (micro_batch, 3, size, size), float32, and `labels` (micro_batch,), int64.

    `synthetic`: standard normal pixels, labels uniform over `classes`. `images`: handwritten digits
    (models/data/images) drawn uniformly with replacement, scaled to [-1, 1], interpolated bilinearly to the size, the
    same in all 3 channels.

    Raises:
        SpecError: `workload.data` is neither, or the model has fewer classes than the images.
    """
    if workload.data not in DATA:
        raise SpecError(f"workload.data: no {workload.data!r} for a vision model; there are {', '.join(DATA)}")
    count = workload.micro_batch
    if workload.data == "synthetic":
        return {
            "pixel_values": torch.randn((count, 3, size, size), generator=generator),
            "labels": torch.randint(0, classes, (count,), generator=generator),
        }
    if classes < DIGIT_CLASSES:
        raise SpecError(f"model.settings.classes: {classes}, but workload.data=images has {DIGIT_CLASSES} classes")
    digits, labels = _digits()
    chosen = torch.randint(0, len(digits), (count,), generator=generator)
    grey = torch.as_tensor(digits)[chosen].unsqueeze(1).float() / (BRIGHTEST / 2) - 1
    larger = nn.functional.interpolate(grey, size=(size, size), mode="bilinear", align_corners=False)
    return {"pixel_values": larger.repeat(1, 3, 1, 1), "labels": torch.as_tensor(labels)[chosen].long()}


def enough_for_batch_norm(workload: WorkloadSpec, size: int, last: int) -> int:
    """`size`, unless the smallest feature map, `last` pixels wide, leaves BatchNorm less than two values a channel.

    Raises:
        SpecError: it does.
    """
    if workload.micro_batch * last**2 < 2:
        raise SpecError(
            f"workload.shape.image_size: images of {size} pixels end in feature maps of {last} × {last}; with "
            f"workload.micro_batch={workload.micro_batch} that is less than the two values that BatchNorm needs"
        )
    return size


@functools.cache
def _digits() -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """(1797, 8, 8) pixels from 0 to 16 and (1797,) digits, uint8. Kept as arrays: a tensor made while a fake mode is
    entered would be a fake one for good."""
    folder = resources.files("models") / "data" / "images"
    arrays = []
    for name in ("digits.npy", "labels.npy"):
        with (folder / name).open("rb") as file:
            arrays.append(numpy.load(file, allow_pickle=False))
    return arrays[0], arrays[1]
