"""No false alarm: every valid placement of every family of the zoo, dropout on, in fp32 and bf16-autocast.

BatchNorm is the exception, whose statistics a replay moves twice: there the kind of the fault is held, and that the
placement is valid with @restore.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from bench.audit import AuditOptions, PlainSide, Verdict, audit_step, plain_side
from bench.cli.entry import config_folder
from bench.placement import apply, generate_placements, parse_placement
from bench.placement.wiring import Wiring, record_wiring
from bench.spec import ModelSpec, OptimizerSpec, WorkloadSpec
from bench.step import TrainingStep, build_training_step, load_family
from tests.builders import make_controls
from tests.tiny_models import EVERY_GENERATOR

TEXT = {"layers": 3, "width": 32, "heads": 2, "vocabulary": 64}
LLAMA = {**TEXT, "feed_forward": 48, "key_value_heads": 1, "positions": 32, "dropout": 0.1}
TOKENS = WorkloadSpec(micro_batch=2, shape={"sequence_length": 16})
IMAGES = WorkloadSpec(micro_batch=2, shape={"image_size": 32})
FAMILIES: dict[str, tuple[str, dict[str, Any], WorkloadSpec]] = {
    "gpt2": ("gpt2", {**TEXT, "positions": 32, "dropout": 0.1}, TOKENS),
    "llama": (
        "llama",
        LLAMA,
        WorkloadSpec(micro_batch=2, accumulation=2, shape={"sequence_length": 16}, lengths="variable"),
    ),
    "llama-lora": ("llama", {**LLAMA, "lora_rank": 4, "lora_targets": "q_proj,v_proj", "lora_dropout": 0.1}, TOKENS),
    "mixtral": ("mixtral", {**LLAMA, "experts": 4, "experts_per_token": 2, "router_loss": 0.5}, TOKENS),
    "mixtral-eager": ("mixtral", {**LLAMA, "experts": 4, "experts_per_token": 2, "routed": "eager"}, TOKENS),
    "t5": (
        "t5",
        {**TEXT, "feed_forward": 64, "dropout": 0.1},
        WorkloadSpec(micro_batch=2, accumulation=2, shape={"sequence_length": 16, "target_length": 8}),
    ),
    "vit": (
        "vit",
        {"layers": 3, "width": 32, "heads": 2, "image_size": 32, "patch": 8, "classes": 10, "dropout": 0.1},
        IMAGES,
    ),
    "swin": (
        "swin",
        {"depths": "2-2", "width": 16, "heads": "2-4", "window": 4, "patch": 2, "classes": 10, "dropout": 0.1,
         "drop_path": 0.2},
        IMAGES,
    ),
    "unet": (
        "unet",
        {"width": 16, "multipliers": "1-1-2-2", "layers": 1, "head_width": 8, "groups": 4, "dropout": 0.1},
        WorkloadSpec(micro_batch=2, shape={"image_size": 16}),
    ),
    "resnet50": ("resnet50", {"depths": "2-2", "width": 8, "classes": 10}, IMAGES),
    "densenet": ("densenet", {"depths": "2-2", "growth": 8, "classes": 10, "dropout": 0.1}, IMAGES),
}  # fmt: skip
"""Case → family, settings, workload."""
NORMED_BY_BATCH = ("resnet50", "densenet")
LOSES_GRADIENTS = {
    "llama-lora": "no input of model.layers.0 requires a gradient",
    "mixtral": "a forward hook inside model.layers.0",
    "mixtral-eager": "a forward hook inside model.layers.0",
}
"""Where a reentrant region would lose some, and is refused: the embedding is frozen, or a hook takes the router's
logits out of the block."""
CONVOLUTIONAL = (*NORMED_BY_BATCH, "unet")
PRECISIONS = ("fp32", "bf16-autocast")


@functools.cache
def side(name: str, precision: str) -> tuple[TrainingStep, PlainSide, Wiring]:
    family, settings, workload = FAMILIES[name]
    controls = make_controls(
        model=ModelSpec(name="case", target=f"models.{family}", settings=settings),
        workload=workload,
        optimizer=OptimizerSpec(settings={"lr": 1e-2}),
        precision=precision,
        facts=None,
    )
    step = build_training_step(controls, torch.device("cpu"))
    units = {unit for text in texts(name, EVERY_GENERATOR) for r in parse_placement(text).regions for unit in r.units}
    wiring = record_wiring(step.model, sorted(units), step.forward)
    return step, plain_side(step, AuditOptions(trials=1, confirm=0)), wiring


@functools.cache
def chains(name: str) -> Any:
    family, settings, _ = FAMILIES[name]
    built = load_family(ModelSpec(name="case", target=f"models.{family}", settings=settings))
    return built.chains(built.build(**settings))


def texts(name: str, generators: Mapping[str, Any]) -> list[str]:
    kinds = sorted({kind for chain in chains(name) for kind in chain.kinds})
    asked = {**generators, "kinds": kinds} if generators is EVERY_GENERATOR else generators
    return [entry.text for entry in generate_placements(asked, chains(name))]


def default_texts(name: str) -> list[str]:
    """The placements that a sweep of the family measures when nothing is said of them; of a net that BatchNorm is in,
    their twins."""
    chosen = "convolutional-default" if name in CONVOLUTIONAL else "default"
    options = OmegaConf.to_container(OmegaConf.load(config_folder() / "placements" / f"{chosen}.yaml"))
    placements = [parse_placement(text) for text in texts(name, options) if text != "none"]  # type: ignore[arg-type]
    return [(p.restored() if name in NORMED_BY_BATCH else p).text for p in placements]


def verdict_of(name: str, precision: str, text: str) -> Verdict:
    step, plain, wiring = side(name, precision)
    return audit_step(step, text, wiring=wiring, plain=plain)


def check(name: str, precision: str, text: str) -> None:
    verdict = verdict_of(name, precision, text)
    if verdict.outcome == "unsupported":
        assert verdict.notes, text
    elif "no-rng" in text:
        assert verdict.kind in ("", "rng", "state"), str(verdict)
    elif "@reentrant" in text and name in LOSES_GRADIENTS:
        assert (verdict.outcome, verdict.kind) == ("invalid", "gradient"), str(verdict)
        assert LOSES_GRADIENTS[name] in verdict.findings[0].text
        assert verdict.findings[0].cure == "leave @reentrant out"
    elif name in NORMED_BY_BATCH:
        assert verdict.kind in ("", "state"), str(verdict)
    else:
        assert verdict.may_stand_on_a_frontier, str(verdict)
        assert "reentrant" in text or verdict.outcome == "valid", str(verdict)


def test_every_family_of_the_zoo_is_here() -> None:
    targets = {OmegaConf.load(path).model.target for path in (config_folder() / "model").glob("*.yaml")}
    assert {f"models.{family}" for family, _, _ in FAMILIES.values()} == {t for t in targets if t.startswith("models.")}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_default_placement_is_valid_to_the_bit(name: str, precision: str) -> None:
    for text in default_texts(name):
        verdict = verdict_of(name, precision, text)
        assert (verdict.outcome, verdict.tolerance, verdict.batch_note) == ("valid", 0.0, ""), str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NORMED_BY_BATCH)
def test_without_restore_a_net_of_batchnorm_is_invalid_under_every_default_placement(name: str, precision: str) -> None:
    for text in default_texts(name):
        verdict = verdict_of(name, precision, text.replace("@restore", ""))
        assert (verdict.outcome, verdict.kind) == ("invalid", "state"), str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_placement_raises_an_alarm(name: str, precision: str) -> None:
    for text in texts(name, EVERY_GENERATOR):
        check(name, precision, text)


def test_a_replayed_batchnorm_is_named_with_the_line_that_calls_it() -> None:
    verdict = verdict_of("resnet50", "fp32", texts("resnet50", {"each": True})[-1])
    assert (verdict.outcome, verdict.kind) == ("invalid", "state")
    assert verdict.first_difference is not None
    assert verdict.first_difference.source.startswith("modeling_resnet.py:")
    assert "running_mean" in verdict.findings[0].where or "num_batches_tracked" in verdict.findings[0].where


def test_a_placement_that_the_model_cannot_take_is_unsupported_and_says_why() -> None:
    step, plain, _ = side("gpt2", "fp32")
    with apply(step.model, "transformer.h.1"):
        verdict = audit_step(step, "transformer.h.0", plain=plain)
    assert verdict.outcome == "unsupported"
    assert "already carries a placement" in verdict.notes[0]
