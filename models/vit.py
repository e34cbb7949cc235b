"""Vision Transformer (Dosovitskiy et al. 2021, arXiv 2010.11929): transformers' ViTForImageClassification, from its
config, random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bench.spec import ChainInfo, SpecError, WorkloadSpec
from models.images import SHAPE as SHAPE, image_size as size_of, labelled_images

if TYPE_CHECKING:
    from transformers import ViTForImageClassification

LIBRARY = "transformers"
KINDS = {"attention": ("attention",), "mlp": ("mlp",), "norm": ("layernorm_before", "layernorm_after")}


def build(
    *,
    layers: int = 12,
    width: int = 384,
    heads: int = 6,
    image_size: int = 224,
    patch: int = 16,
    classes: int = 1000,
    dropout: float = 0.0,
    attention: str = "sdpa",
) -> ViTForImageClassification:
    """A ViTForImageClassification in training mode on the current default device.

    Args:
        image_size: pixels; fixes the number of position embeddings.
        patch: pixels on a side of one token.
        dropout: of hidden states and attention weights; the library's ViT has no drop path.
        attention: as in transformers (`sdpa`, `eager`).
    """
    from transformers import ViTConfig, ViTForImageClassification
    from transformers.initialization import no_init_weights

    if image_size % patch:
        raise SpecError(f"model.settings.image_size: {image_size} is no multiple of model.settings.patch, {patch}")
    config = ViTConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=heads,
        image_size=image_size,
        patch_size=patch,
        num_labels=classes,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        attn_implementation=attention,
    )
    with no_init_weights():
        model = ViTForImageClassification(config)
    # The library draws these two truncated at 100 standard deviations, by rejection: a loop that looks at values, which
    # fake tensors don't have.
    for name in ("cls_token", "position_embeddings"):
        parameter = getattr(model.vit.embeddings, name)
        nn.init.normal_(parameter, std=config.initializer_range)
        parameter._is_hf_initialized = True
    model.init_weights()
    return model.train()


def batch(model: ViTForImageClassification, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`pixel_values` (micro_batch, 3, image_size, image_size) and `labels` (micro_batch,); see models/images.py."""
    built = model.config.image_size
    size = size_of(workload, built)
    if size != built:
        raise SpecError(f"workload.shape.image_size: {size}, but model.settings.image_size is {built}")
    return labelled_images(workload, size, model.config.num_labels, generator)


def loss(model: ViTForImageClassification, batch: dict[str, Any]) -> torch.Tensor:
    """Mean cross-entropy of the labels."""
    return nn.functional.cross_entropy(model(pixel_values=batch["pixel_values"]).logits, batch["labels"])


def chains(model: ViTForImageClassification) -> tuple[ChainInfo, ...]:
    units = tuple(f"vit.layers.{index}" for index in range(len(model.vit.layers)))
    return (ChainInfo(name="vit.layers", units=units, kinds=KINDS),)
