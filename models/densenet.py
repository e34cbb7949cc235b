"""DenseNet-BC (Huang et al. 2017, arXiv 1608.06993), written in plain torch with random weights.

A layer takes the features of all layers before it in its block, so concatenated inputs and their normalised copies grow
with the square of a block's depth. Replaying them frees that: Pleiss et al. 2017 (arXiv 1707.06990) recompute
concatenation, BatchNorm and ReLU and keep what convolutions hand out, which is the policy `keep.conv` on every layer
here; torchvision's `memory_efficient` replays the kind `bottleneck`. The features themselves, the boundaries, grow with
the depth alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bench.spec import ChainInfo, WorkloadSpec
from models.images import SHAPE as SHAPE, enough_for_batch_norm, image_size, labelled_images
from models.stages import numbers_of

LIBRARY = "torch"
BOTTLENECK = 4
"""Channels between the two convolutions of a layer, in growths."""
KINDS = {"bottleneck": ("bottleneck",), "growth": ("growth",), "norm": ("bottleneck.norm", "growth.norm")}


class NormConv(nn.Module):
    """BatchNorm, ReLU and a convolution over all features it is given, concatenated: (N, C_i, H, W)… → (N, C, H, W)."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)

    def forward(self, *features: torch.Tensor) -> torch.Tensor:
        joined = features[0] if len(features) == 1 else torch.cat(features, dim=1)
        convolved: torch.Tensor = self.conv(nn.functional.relu(self.norm(joined)))
        return convolved


class DenseLayer(nn.Module):
    """Features of the block so far → `growth` channels more. They are joined inside, so that a region around the layer
    frees the joined tensor."""

    def __init__(self, inputs: int, growth: int, dropout: float) -> None:
        super().__init__()
        self.bottleneck = NormConv(inputs, BOTTLENECK * growth, kernel=1)
        self.growth = NormConv(BOTTLENECK * growth, growth, kernel=3)
        self.dropout = nn.Dropout(dropout)

    def forward(self, *features: torch.Tensor) -> torch.Tensor:
        grown: torch.Tensor = self.dropout(self.growth(self.bottleneck(*features)))
        return grown


class DenseBlock(nn.Module):
    def __init__(self, inputs: int, growth: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(inputs + index * growth, growth, dropout) for index in range(depth))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = [image]
        for layer in self.layers:
            features.append(layer(*features))
        return torch.cat(features, dim=1)


class DenseNet(nn.Module):
    """(N, 3, H, W) → logits (N, classes)."""

    def __init__(self, depths: tuple[int, ...], growth: int, classes: int, dropout: float) -> None:
        super().__init__()
        width = 2 * growth
        self.classes = classes
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.blocks = nn.ModuleList()
        self.transitions = nn.ModuleList()
        for index, depth in enumerate(depths):
            if index:
                self.transitions.append(nn.Sequential(NormConv(width, width // 2, kernel=1), nn.AvgPool2d(2)))
                width //= 2
            self.blocks.append(DenseBlock(width, growth, depth, dropout))
            width += depth * growth
        self.norm = nn.BatchNorm2d(width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        image = self.stem(pixel_values)
        for index, block in enumerate(self.blocks):
            image = block(self.transitions[index - 1](image) if index else image)
        logits: torch.Tensor = self.classifier(nn.functional.relu(self.norm(image)).mean(dim=(2, 3)))
        return logits


def build(*, depths: str = "6-12-24-16", growth: int = 32, classes: int = 1000, dropout: float = 0.0) -> DenseNet:
    """A DenseNet in training mode on the current default device.

    Args:
        depths: layers in each block (`6-12-24-16` is DenseNet-121, `6-12-32-32` DenseNet-169).
        growth: channels that a layer adds; the stem has twice as many.
        dropout: after each layer's last convolution.
    """
    return DenseNet(numbers_of(depths, "depths"), growth, classes, dropout).train()


def batch(model: DenseNet, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`pixel_values` (micro_batch, 3, image_size, image_size) and `labels` (micro_batch,); see models/images.py."""
    size = image_size(workload, 224)
    last = -(-size // 4) // 2 ** len(model.transitions)  # the stem rounds up, the pooling of transitions down
    enough_for_batch_norm(workload, size, last)
    return labelled_images(workload, size, model.classes, generator)


def loss(model: DenseNet, batch: dict[str, Any]) -> torch.Tensor:
    """Mean cross-entropy of the labels."""
    return nn.functional.cross_entropy(model(batch["pixel_values"]), batch["labels"])


def chains(model: DenseNet) -> tuple[ChainInfo, ...]:
    found: list[ChainInfo] = []
    for index, block in enumerate(model.blocks):
        assert isinstance(block, DenseBlock)
        name = f"blocks.{index}.layers"
        units = tuple(f"{name}.{layer}" for layer in range(len(block.layers)))
        found.append(ChainInfo(name=name, units=units, kinds=KINDS))
    return tuple(found)
