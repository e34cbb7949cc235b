"""ResNet with bottleneck blocks (He et al. 2016, arXiv 1512.03385): transformers' ResNetForImageClassification, from
its config, random weights. Each stage has a resolution of its own, and is a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bench.spec import ChainInfo, WorkloadSpec
from models.images import SHAPE as SHAPE, enough_for_batch_norm, image_size, labelled_images
from models.stages import numbers_of

if TYPE_CHECKING:
    from transformers import ResNetForImageClassification

LIBRARY = "transformers"
EXPANSION = 4
# Convolution, BatchNorm and ReLU are one module. What a block's first shortcut has more (a projection) is left out: it
# is in the first block of a stage alone.
KINDS = {
    "conv": ("layer.0", "layer.1", "layer.2"),
    "norm": ("layer.0.normalization", "layer.1.normalization", "layer.2.normalization"),
}


def build(*, depths: str = "3-4-6-3", width: int = 64, classes: int = 1000) -> ResNetForImageClassification:
    """A ResNetForImageClassification in training mode on the current default device. It has no dropout.

    Args:
        depths: blocks in each stage (`3-4-6-3` is ResNet-50, `3-4-23-3` ResNet-101).
        width: channels of the stem and of the first stage's 3 × 3 convolutions; each later stage has twice as many, and
            every stage hands out four times its own.
    """
    from transformers import ResNetConfig, ResNetForImageClassification

    blocks = numbers_of(depths, "depths")
    config = ResNetConfig(
        embedding_size=width,
        hidden_sizes=[EXPANSION * width * 2**stage for stage in range(len(blocks))],
        depths=list(blocks),
        layer_type="bottleneck",
        num_labels=classes,
    )
    return ResNetForImageClassification(config).train()


def batch(model: ResNetForImageClassification, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`pixel_values` (micro_batch, 3, image_size, image_size) and `labels` (micro_batch,); see models/images.py."""
    size = image_size(workload, 224)
    last = -(-size // 2 ** (len(model.config.depths) + 1))  # the stem halves twice, every stage but the first once
    enough_for_batch_norm(workload, size, last)
    return labelled_images(workload, size, model.config.num_labels, generator)


def loss(model: ResNetForImageClassification, batch: dict[str, Any]) -> torch.Tensor:
    """Mean cross-entropy of the labels."""
    return nn.functional.cross_entropy(model(pixel_values=batch["pixel_values"]).logits, batch["labels"])


def chains(model: ResNetForImageClassification) -> tuple[ChainInfo, ...]:
    return tuple(
        ChainInfo(
            name=f"resnet.encoder.stages.{stage}.layers",
            units=tuple(f"resnet.encoder.stages.{stage}.layers.{block}" for block in range(depth)),
            kinds=KINDS,
        )
        for stage, depth in enumerate(model.config.depths)
    )
