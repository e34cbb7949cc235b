"""The vision families: their batches, what they refuse, their FLOPs, and the placements that their configs choose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from torch._subclasses.fake_tensor import FakeTensorMode

import models.densenet
import models.images
from bench.cli.entry import config_folder
from bench.cli.resolvers import register_resolvers
from bench.measure import OpCounter
from bench.placement import apply, generate_placements
from bench.placement.region_forward import in_replay
from bench.spec import ModelSpec, SpecError, WorkloadSpec
from bench.spec.controls import Scalar
from bench.step import load_family

CONVOLUTIONAL = ("resnet50", "densenet", "unet", "unet-base")
TINY: dict[str, dict[str, Scalar]] = {
    "vit": {"layers": 1, "width": 8, "heads": 1, "image_size": 32, "patch": 16, "classes": 10},
    "swin": {"depths": "1-1", "width": 8, "heads": "1-1", "window": 4, "patch": 2, "classes": 10},
    "resnet50": {"depths": "1-1", "width": 8, "classes": 10},
    "densenet": {"depths": "1-1", "growth": 8, "classes": 10},
    "unet": {"width": 8, "multipliers": "1-1", "layers": 1, "head_width": 8, "groups": 4},
}


def draw(name: str, seed: int = 0, **workload: object) -> dict[str, torch.Tensor]:
    family = load_family(ModelSpec(name=name, target=f"models.{name}"))
    fields: dict[str, object] = {"micro_batch": 4, "shape": {"image_size": 32}, **workload}
    generator = torch.Generator().manual_seed(seed)
    return family.batch(family.build(**TINY[name]), WorkloadSpec(**fields), generator)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("data", models.images.DATA)
def test_the_generator_alone_decides_a_batch(name: str, data: str) -> None:
    first, again, other = draw(name, data=data), draw(name, data=data), draw(name, seed=1, data=data)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not any(torch.equal(first[key], other[key]) for key in first)


def test_images_are_the_stored_digits_with_their_labels() -> None:
    digits, labels = models.images._digits()
    workload = WorkloadSpec(micro_batch=4, data="images")
    batch = models.images.labelled_images(workload, 8, 10, torch.Generator().manual_seed(3))
    chosen = torch.randint(0, 1797, (4,), generator=torch.Generator().manual_seed(3)).numpy()
    assert numpy.array_equal(batch["labels"].numpy(), labels[chosen])
    for channel in range(3):
        assert numpy.array_equal(batch["pixel_values"][:, channel].numpy(), digits[chosen] / 8 - 1)


def test_larger_images_stay_within_the_range_of_the_digits() -> None:
    pixels = draw("vit", data="images")["pixel_values"]
    assert pixels.shape == (4, 3, 32, 32)
    assert pixels.min() == -1
    assert 0 < pixels.max() <= 1


def test_noisy_images_of_a_unet_have_the_variance_of_their_parts() -> None:
    # Unit variance in, unit variance out: the schedule keeps a squared weight of 1 over image and noise.
    batch = draw("unet", micro_batch=64)
    assert batch["noisy"].var().item() == pytest.approx(1, abs=0.02)
    late = batch["timesteps"] > 900
    assert late.any()
    torch.testing.assert_close(batch["noisy"][late], batch["noise"][late], atol=0.1, rtol=0)


def test_a_batch_drawn_on_fake_tensors_leaves_the_digits_real() -> None:
    models.images._digits.cache_clear()
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert draw("vit", data="images")["pixel_values"].shape == (4, 3, 32, 32)
    assert not isinstance(draw("vit", data="images")["pixel_values"], torch._subclasses.FakeTensor)


@pytest.mark.parametrize(
    ("name", "workload", "says"),
    [
        *((name, {"lengths": "variable"}, "workload.lengths: .*fixed size") for name in TINY),
        *((name, {"data": "text"}, "workload.data: no 'text' .* synthetic, images") for name in TINY),
        ("vit", {"shape": {"image_size": 64}}, "workload.shape.image_size: 64, but model.settings.image_size is 32"),
        ("swin", {"shape": {"image_size": 30}}, "workload.shape.image_size: 30; .*multiple of 4 .*at least 16"),
        ("swin", {"shape": {"image_size": 8}}, "workload.shape.image_size: 8; .*at least 16"),
        ("unet", {"shape": {"image_size": 31}}, "workload.shape.image_size: 31 is no multiple of 2"),
        ("resnet50", {"micro_batch": 1, "shape": {"image_size": 8}}, "workload.shape.image_size: .*BatchNorm"),
        ("densenet", {"shape": {"image_size": 4}}, "workload.shape.image_size: .*0 × 0"),
    ],
)
def test_what_a_family_cannot_take_is_refused_by_option(name: str, workload: Mapping[str, object], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        draw(name, **workload)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("resnet50", {"depths": "3-x"}, "model.settings.depths: .*'3-x'"),
        ("swin", {"heads": "3-6"}, "model.settings.heads: for 2 stages, model.settings.depths for 4"),
        ("vit", {"patch": 15}, "model.settings.image_size: 224 is no multiple of model.settings.patch, 15"),
        ("unet", {"attention": "flash"}, "model.settings.attention: no 'flash' .*sdpa, eager"),
        ("unet", {"attention_levels": 5}, "model.settings.attention_levels: 5 of 4 levels"),
    ],
)
def test_settings_that_make_no_model_are_refused_by_name(name: str, settings: Mapping[str, Scalar], says: str) -> None:
    family = load_family(ModelSpec(name=name, target=f"models.{name}"))
    with pytest.raises(SpecError, match=says):
        family.build(**settings)


def test_images_need_a_class_for_each_digit() -> None:
    with pytest.raises(SpecError, match=r"model\.settings\.classes: 9, .* 10 classes"):
        models.images.labelled_images(WorkloadSpec(micro_batch=1, data="images"), 8, 9, torch.Generator())


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_of_a_unet_runs_the_kernel_that_was_asked_for(attention: str) -> None:
    family = load_family(ModelSpec(name="unet", target="models.unet"))
    model = family.build(**TINY["unet"], attention=attention)
    batch = family.batch(model, WorkloadSpec(micro_batch=1, shape={"image_size": 8}), torch.Generator())
    with OpCounter() as counter:
        family.loss(model, batch)
    assert bool(counter.attention_ops) == (attention == "sdpa")


@pytest.mark.parametrize(
    ("placement", "replayed"),
    [
        ("none", 0),
        # A replay stops once the last saved tensor is there: the input of a layer's second convolution.
        ("blocks.0.layers.0..1:each", 2 * 2 * 4 * (8 * 16 + 12 * 16)),
        # Pleiss et al. 2017: concatenation, BatchNorm and ReLU alone.
        ("blocks.0.layers.0..1:each:keep.conv", 0),
    ],
)
def test_flops_of_a_small_dense_net_are_those_counted_by_hand(placement: str, replayed: int) -> None:
    model = models.densenet.build(depths="2", growth=4, classes=3)
    workload = WorkloadSpec(micro_batch=2, shape={"image_size": 8})
    batch = models.densenet.batch(model, workload, torch.Generator().manual_seed(0))
    # 2 a multiply-add: images × pixels × channels in × channels out × kernel.
    stem = 2 * 2 * 16 * (3 * 8 * 49)
    layers = 2 * 2 * 4 * (8 * 16 + 16 * 4 * 9) + 2 * 2 * 4 * (12 * 16 + 16 * 4 * 9)
    classifier = 2 * 2 * (16 * 3)
    with apply(model, placement), OpCounter(in_replay) as counter:
        models.densenet.loss(model, batch).backward()  # type: ignore[no-untyped-call]
    # Backward is twice the forward, but images need no gradient.
    assert counter.flops - counter.replay_flops == 3 * (stem + layers + classifier) - stem
    assert counter.replay_flops == replayed


def placements_of(*overrides: str) -> dict[str, object]:
    register_resolvers()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        options = OmegaConf.to_container(compose("sweep", list(overrides)).placements, resolve=True)
    assert isinstance(options, dict)
    return {str(key): value for key, value in options.items()}


@pytest.mark.parametrize(("protocol", "count"), [("quick", 4), ("default", 8), ("full", 10)])
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_convolutional_nets_have_placements_of_their_own_under_every_protocol(
    name: str, protocol: str, count: int
) -> None:
    options = placements_of(f"model={name}", f"protocol={protocol}")
    assert options == placements_of(f"model={name}", f"protocol={protocol}", f"placements=convolutional-{protocol}")
    target = name.partition("-")[0]
    family = load_family(ModelSpec(name=name, target=f"models.{target}"))
    with torch.device("meta"):
        chains = family.chains(family.build())
    assert len(generate_placements(options, chains)) >= count


def test_there_are_convolutional_placements_for_every_protocol() -> None:
    protocols = {path.stem for path in (config_folder() / "protocol").glob("*.yaml")}
    found = {path.stem for path in (config_folder() / "placements").glob("convolutional-*.yaml")}
    assert found == {f"convolutional-{protocol}" for protocol in protocols}


def test_placements_on_the_command_line_win_over_those_of_a_convolutional_net() -> None:
    assert placements_of("model=resnet50-tiny", "protocol=full", "placements=all") == placements_of("placements=all")
