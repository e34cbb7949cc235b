"""Diffusion U-Net (Ho et al. 2020, arXiv 2006.11239): diffusers' UNet2DModel, from its config, random weights, in a
step that predicts the noise in an image.

Units are its down blocks, its middle and its up blocks; `resnet` and `attention` are kinds inside them. Down blocks are
called one after another. An up block also takes what down blocks handed out long before, so each is a chain by itself:
no span can hold two of them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bench.spec import ChainInfo, SpecError, WorkloadSpec
from models.images import DIGIT_CLASSES, SHAPE as SHAPE, image_size, labelled_images
from models.stages import numbers_of

if TYPE_CHECKING:
    from diffusers import UNet2DModel

LIBRARY = "diffusers"
ATTENTION = ("sdpa", "eager")
# The linear schedule of Ho et al. 2020, section 4.
TIMESTEPS, FIRST_BETA, LAST_BETA = 1000, 1e-4, 0.02


def build(
    *,
    width: int = 64,
    multipliers: str = "1-2-2-2",
    layers: int = 2,
    attention_levels: int = 2,
    head_width: int = 32,
    groups: int = 32,
    dropout: float = 0.0,
    attention: str = "sdpa",
) -> UNet2DModel:
    """A UNet2DModel in training mode on the current default device.

    Args:
        width: channels of the first level.
        multipliers: channels of each level, in widths; each level halves the resolution.
        layers: residual blocks in a down block; an up block has one more.
        attention_levels: how many of the deepest levels have self-attention after each residual block.
        head_width: channels of one attention head.
        groups: of GroupNorm.
        dropout: before the second convolution of each residual block.
        attention: `sdpa`, or `eager` for matmuls and softmax.
    """
    from diffusers import UNet2DModel
    from diffusers.models.attention_processor import AttnProcessor

    if attention not in ATTENTION:
        raise SpecError(f"model.settings.attention: no {attention!r} for a U-Net; there are {', '.join(ATTENTION)}")
    channels = tuple(width * multiplier for multiplier in numbers_of(multipliers, "multipliers"))
    if not 0 <= attention_levels <= len(channels):
        raise SpecError(f"model.settings.attention_levels: {attention_levels} of {len(channels)} levels")
    plain = len(channels) - attention_levels
    model = UNet2DModel(
        in_channels=3,
        out_channels=3,
        block_out_channels=channels,
        layers_per_block=layers,
        down_block_types=("DownBlock2D",) * plain + ("AttnDownBlock2D",) * attention_levels,
        up_block_types=("AttnUpBlock2D",) * attention_levels + ("UpBlock2D",) * plain,
        attention_head_dim=head_width,
        norm_num_groups=groups,
        dropout=dropout,
    )
    if attention == "eager":
        for module in model.modules():
            if hasattr(module, "set_processor"):
                module.set_processor(AttnProcessor())
    return model.train()


def batch(model: UNet2DModel, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`noisy` and `noise` (micro_batch, 3, image_size, image_size), float32, and `timesteps` (micro_batch,), int64.

    Noise is mixed into images of models/images.py when the batch is made, as a data loader would.
    """
    size, step = image_size(workload, 64), 2 ** (len(model.config.block_out_channels) - 1)
    if size % step:
        raise SpecError(
            f"workload.shape.image_size: {size} is no multiple of {step}, which halves to the last of "
            "model.settings.multipliers"
        )
    images = labelled_images(workload, size, DIGIT_CLASSES, generator)["pixel_values"]
    noise = torch.randn(images.shape, generator=generator)
    timesteps = torch.randint(0, TIMESTEPS, (workload.micro_batch,), generator=generator)
    remaining = torch.cumprod(1 - torch.linspace(FIRST_BETA, LAST_BETA, TIMESTEPS), dim=0)[timesteps].view(-1, 1, 1, 1)
    return {
        "noisy": remaining.sqrt() * images + (1 - remaining).sqrt() * noise,
        "noise": noise,
        "timesteps": timesteps,
    }


def loss(model: UNet2DModel, batch: dict[str, Any]) -> torch.Tensor:
    """Mean squared error of the predicted noise."""
    return nn.functional.mse_loss(model(batch["noisy"], batch["timesteps"]).sample, batch["noise"])


def chains(model: UNet2DModel) -> tuple[ChainInfo, ...]:
    """Down blocks in runs that have the same kinds, then the middle, then each up block."""
    down = [(f"down_blocks.{index}", _kinds(block)) for index, block in enumerate(model.down_blocks)]
    found: list[ChainInfo] = []
    for kinds, run in itertools.groupby(down, key=lambda named: named[1]):
        units = tuple(name for name, _ in run)
        found.append(ChainInfo(name="/".join(units), units=units, kinds=kinds))
    ends = [("mid_block", model.mid_block)] + [(f"up_blocks.{i}", block) for i, block in enumerate(model.up_blocks)]
    return (*found, *(ChainInfo(name=name, units=(name,), kinds=_kinds(block)) for name, block in ends))


def _kinds(block: nn.Module) -> dict[str, tuple[str, ...]]:
    parts = {"resnet": "resnets", "attention": "attentions"}
    return {
        kind: tuple(f"{part}.{index}" for index in range(len(getattr(block, part))))
        for kind, part in parts.items()
        if getattr(block, part, None)
    }
