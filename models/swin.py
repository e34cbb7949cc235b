"""Swin Transformer (Liu et al. 2021, arXiv 2103.14030): transformers' SwinForImageClassification, from its config,
random weights. Stages halve the resolution by patch merging, so each stage is a chain of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bench.spec import ChainInfo, SpecError, WorkloadSpec
from models.images import SHAPE as SHAPE, image_size, labelled_images
from models.stages import numbers_of, one_each

if TYPE_CHECKING:
    from transformers import SwinForImageClassification

LIBRARY = "transformers"
KINDS = {"attention": ("attention",), "mlp": ("mlp",), "norm": ("layernorm_before", "layernorm_after")}


def build(
    *,
    depths: str = "2-2-6-2",
    width: int = 96,
    heads: str = "3-6-12-24",
    window: int = 7,
    patch: int = 4,
    classes: int = 1000,
    dropout: float = 0.0,
    drop_path: float = 0.0,
    attention: str = "sdpa",
) -> SwinForImageClassification:
    """A SwinForImageClassification in training mode on the current default device.

    Args:
        depths: blocks in each stage.
        width: channels of the first stage; they double from stage to stage.
        heads: attention heads in each stage.
        window: tokens on a side of one attention window.
        patch: pixels on a side of one token of the first stage.
        dropout: of hidden states and attention weights.
        drop_path: chance that the last block's branches are skipped for a sample; earlier blocks have less, linearly.
        attention: as in transformers (`sdpa`, `eager`). The position bias is learned, and with such a mask the CPU's
            `sdpa` takes the math path.
    """
    from transformers import SwinConfig, SwinForImageClassification

    blocks = numbers_of(depths, "depths")
    config = SwinConfig(
        depths=blocks,
        embed_dim=width,
        num_heads=one_each(numbers_of(heads, "heads"), "heads", blocks, "depths"),
        window_size=window,
        patch_size=patch,
        num_labels=classes,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        drop_path_rate=drop_path,
        attn_implementation=attention,
    )
    return SwinForImageClassification(config).train()


def batch(model: SwinForImageClassification, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`pixel_values` (micro_batch, 3, image_size, image_size) and `labels` (micro_batch,); see models/images.py."""
    config, size = model.config, image_size(workload, 224)
    # The library makes windows smaller where a stage has fewer tokens, but not their table of position biases.
    step = config.patch_size * 2 ** (len(config.depths) - 1)
    if size % step or size // step < config.window_size:
        raise SpecError(
            f"workload.shape.image_size: {size}; expected a multiple of {step} (model.settings.patch and depths) of at "
            f"least {step * config.window_size}, so that the last stage has a whole window (model.settings.window)"
        )
    return labelled_images(workload, size, config.num_labels, generator)


def loss(model: SwinForImageClassification, batch: dict[str, Any]) -> torch.Tensor:
    """Mean cross-entropy of the labels."""
    return nn.functional.cross_entropy(model(pixel_values=batch["pixel_values"]).logits, batch["labels"])


def chains(model: SwinForImageClassification) -> tuple[ChainInfo, ...]:
    return tuple(
        ChainInfo(
            name=f"swin.encoder.layers.{stage}.blocks",
            units=tuple(f"swin.encoder.layers.{stage}.blocks.{block}" for block in range(depth)),
            kinds=KINDS,
        )
        for stage, depth in enumerate(model.config.depths)
    )
