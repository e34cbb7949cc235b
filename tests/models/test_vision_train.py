"""The vision families: whatever the placement, a training step is the plain one, on noise and on real images."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from bench.placement import UnsupportedPlacementError, apply, generate_placements
from bench.spec import PRECISIONS, WorkloadSpec
from bench.step import build_training_step, load_family
from tests.models.family_checks import (
    FamilyCase,
    assert_precision_trains_or_is_refused,
    assert_trains_alike,
    placement_texts,
)

NOTHING_KEPT = "none of these ops was called"
CONVOLUTIONAL = {"keep.matmul": NOTHING_KEPT, "keep.attention": NOTHING_KEPT}
WORKLOAD = WorkloadSpec(micro_batch=2, shape={"image_size": 32})
CASES = {
    "vit": FamilyCase(
        target="models.vit",
        settings={"layers": 4, "width": 32, "heads": 2, "image_size": 32, "patch": 8, "classes": 10},
        workload=WORKLOAD,
    ),
    "swin": FamilyCase(
        target="models.swin",
        settings={"depths": "3-4", "width": 16, "heads": "2-4", "window": 4, "patch": 2, "classes": 10},
        workload=WORKLOAD,
        # The position bias is a mask that needs a gradient, so the CPU has no attention op to keep.
        no_effect={"keep.attention+": NOTHING_KEPT},
        # A reentrant region's first pass runs without gradients, where that mask needs none: it takes the fused kernel.
        rounded=("reentrant",),
    ),
    "resnet50": FamilyCase(
        target="models.resnet50",
        settings={"depths": "3-4", "width": 8, "classes": 10},
        workload=WORKLOAD,
        no_effect=CONVOLUTIONAL,
    ),
    "densenet": FamilyCase(
        target="models.densenet",
        settings={"depths": "3-4", "growth": 8, "classes": 10},
        workload=WORKLOAD,
        no_effect=CONVOLUTIONAL,
    ),
    "unet": FamilyCase(
        target="models.unet",
        settings={"width": 16, "multipliers": "1-1-2-2", "layers": 1, "head_width": 8, "groups": 4},
        workload=WorkloadSpec(micro_batch=2, shape={"image_size": 16}),
    ),
}
DROPOUT = {
    "vit": {"dropout": 0.1},
    "swin": {"dropout": 0.1, "drop_path": 0.2},
    "densenet": {"dropout": 0.1},
    "unet": {"dropout": 0.1},
}
ON_IMAGES = {
    name: dataclasses.replace(
        case,
        settings={**case.settings, **DROPOUT.get(name, {})},
        workload=dataclasses.replace(case.workload, data="images"),
    )
    for name, case in CASES.items()
}


def every_text(case: FamilyCase) -> list[str]:
    """Every generator's placements, and those that keep convolutions where the family has any in its units."""
    if case.target in ("models.vit", "models.swin"):
        return placement_texts(case)
    family = load_family(case.controls().model)
    chains = family.chains(family.build(**case.settings))
    texts = [text for text in placement_texts(case) if (case.target, "reentrant" in text) != ("models.unet", True)]
    return texts + [entry.text for entry in generate_placements({"policies": ["conv", "conv%2"]}, chains)]


def drawing_texts(name: str) -> list[str]:
    """Without those that, with dropout on, mean other draws (no-rng) or have no attention op to keep on the CPU."""
    texts = every_text(ON_IMAGES[name])
    if name not in DROPOUT:
        return texts
    return [text for text in texts if "no-rng" not in text and not text.endswith("keep.attention")]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, case in CASES.items() for text in every_text(case)])
def test_every_placement_trains_like_the_plain_step_on_noise(name: str, text: str) -> None:
    assert_trains_alike(CASES[name], text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in ON_IMAGES for text in drawing_texts(name)])
def test_every_placement_trains_like_the_plain_step_on_real_images_with_dropout(name: str, text: str) -> None:
    assert_trains_alike(ON_IMAGES[name], text)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_precision_trains_or_says_why_not(name: str, precision: str) -> None:
    assert_precision_trains_or_is_refused(CASES[name], precision)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # Spans that cross what the chains keep apart: another resolution, or another set of kinds.
        ("resnet50", "resnet.encoder.stages.0.layers.2/resnet.encoder.stages.1.layers.0..1"),
        ("unet", "down_blocks.0..3"),
        # The middle's neighbours: all skips of the deepest up block come from inside the span, or are its input.
        ("unet", "down_blocks.3/mid_block/up_blocks.0"),
    ],
)
def test_a_span_may_cross_chains_where_nothing_lies_between(name: str, text: str) -> None:
    assert_trains_alike(CASES[name], text)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("unet", "up_blocks.0..1", "res_hidden_states_tuple of up_blocks.1 is neither an output of an earlier unit"),
        ("unet", "mid_block/up_blocks.0", "res_hidden_states_tuple of up_blocks.0 is neither"),
        (
            "swin",
            "swin.encoder.layers.0.blocks.2/swin.encoder.layers.1.blocks.0",
            "hidden_states of swin.encoder.layers.1.blocks.0 is neither",
        ),
        ("densenet", "blocks.0.layers.2/blocks.1.layers.0", "of blocks.1.layers.0 is neither"),
    ],
)
def test_a_span_over_a_skip_or_a_merge_is_refused(name: str, text: str, why: str) -> None:
    step = build_training_step(CASES[name].controls(), torch.device("cpu"))
    with pytest.raises(UnsupportedPlacementError, match=why):
        apply(step.model, text, forward=step.forward)


def test_reentrant_blocks_of_a_unet_give_the_plain_gradients_to_rounding() -> None:
    """They sum the gradient of the time embedding, which all blocks share, in another order. One step alone: the keys'
    biases have a true gradient of 0, and Adam makes whole steps of what rounding leaves of it."""
    gradients = []
    for text in ("none", "down_blocks.0..3:each@reentrant+mid_block@reentrant+up_blocks.0..3:each@reentrant"):
        step = build_training_step(CASES["unet"].controls(), torch.device("cpu"))
        with apply(step.model, text):
            step.forward().backward()
        gradients.append({name: parameter.grad for name, parameter in step.model.named_parameters()})
    torch.testing.assert_close(gradients[1], gradients[0])
