"""No false alarm: every valid placement of every family of the zoo, dropout on, in fp32 and bf16-autocast.

BatchNorm is the exception, whose statistics a replay moves twice: there only the kind of the fault is held.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from bench.audit import AuditOptions, PlainSide, Verdict, audit_step, plain_side
from bench.placement import apply, generate_placements, parse_placement
from bench.placement.wiring import Wiring, record_wiring
from bench.spec import ModelSpec, OptimizerSpec, WorkloadSpec
from bench.step import TrainingStep, build_training_step, load_family
from tests.builders import make_controls
from tests.tiny_models import EVERY_GENERATOR

TEXT = {"width": 32, "heads": 2, "vocabulary": 64}
IMAGES = WorkloadSpec(micro_batch=2, shape={"image_size": 32})
FAMILIES: dict[str, tuple[dict[str, Any], WorkloadSpec]] = {
    "gpt2": (
        {**TEXT, "layers": 3, "positions": 32, "dropout": 0.1},
        WorkloadSpec(micro_batch=2, shape={"sequence_length": 16}),
    ),
    "t5": (
        {**TEXT, "layers": 3, "feed_forward": 64, "dropout": 0.1},
        WorkloadSpec(micro_batch=2, accumulation=2, shape={"sequence_length": 16, "target_length": 8}),
    ),
    "vit": (
        {"layers": 3, "width": 32, "heads": 2, "image_size": 32, "patch": 8, "classes": 10, "dropout": 0.1},
        IMAGES,
    ),
    "swin": (
        {"depths": "2-2", "width": 16, "heads": "2-4", "window": 4, "patch": 2, "classes": 10, "dropout": 0.1,
         "drop_path": 0.2},
        IMAGES,
    ),
    "unet": (
        {"width": 16, "multipliers": "1-1-2-2", "layers": 1, "head_width": 8, "groups": 4, "dropout": 0.1},
        WorkloadSpec(micro_batch=2, shape={"image_size": 16}),
    ),
    "resnet50": ({"depths": "2-2", "width": 8, "classes": 10}, IMAGES),
    "densenet": ({"depths": "2-2", "growth": 8, "classes": 10, "dropout": 0.1}, IMAGES),
}  # fmt: skip
NORMED_BY_BATCH = ("resnet50", "densenet")
FAST = {"each": True, "spans": [1], "nested": [2], "policies": ["matmul"], "options": ["reentrant", "no-early-stop"]}


@functools.cache
def side(name: str, precision: str) -> tuple[TrainingStep, PlainSide, Wiring]:
    settings, workload = FAMILIES[name]
    controls = make_controls(
        model=ModelSpec(name="case", target=f"models.{name}", settings=settings),
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
    settings, _ = FAMILIES[name]
    family = load_family(ModelSpec(name="case", target=f"models.{name}", settings=settings))
    return family.chains(family.build(**settings))


def texts(name: str, generators: dict[str, Any]) -> list[str]:
    kinds = sorted({kind for chain in chains(name) for kind in chain.kinds})
    asked = {**generators, "kinds": kinds} if "kinds" in generators else generators
    return [entry.text for entry in generate_placements(asked, chains(name))]


def verdict_of(name: str, precision: str, text: str) -> Verdict:
    step, plain, wiring = side(name, precision)
    return audit_step(step, text, wiring=wiring, plain=plain)


def check(name: str, precision: str, text: str) -> None:
    verdict = verdict_of(name, precision, text)
    if verdict.outcome == "unsupported":
        assert verdict.notes, text
    elif "no-rng" in text:
        assert verdict.kind in ("", "rng", "state"), str(verdict)
    elif name in NORMED_BY_BATCH:
        assert verdict.kind in ("", "state"), str(verdict)
    else:
        assert verdict.may_stand_on_a_frontier, str(verdict)
        assert "reentrant" in text or verdict.outcome == "valid", str(verdict)


@pytest.mark.parametrize("precision", ["fp32", "bf16-autocast"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_few_placements_raise_no_alarm(name: str, precision: str) -> None:
    for text in texts(name, FAST):
        check(name, precision, text)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16-autocast"])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_placement_raises_an_alarm(name: str, precision: str) -> None:
    for text in texts(name, EVERY_GENERATOR):
        check(name, precision, text)


def test_batchnorm_is_found_in_every_placement_that_replays_one() -> None:
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
