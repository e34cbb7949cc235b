"""Somebody's own model: what they may leave out, and what is told when they get it wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.spec import ModelSpec, SpecError, WorkloadSpec
from bench.step import TrainingStep, build_training_step, load_family
from tests.builders import make_controls
from tests.step.families import GOOD, write_family

CPU = torch.device("cpu")
NO_LOSS = GOOD[: GOOD.index("def loss")]


def build_step(model: ModelSpec, **workload: Any) -> TrainingStep:
    return build_training_step(
        make_controls(model=model, workload=WorkloadSpec(**{"micro_batch": 4, **workload})), device=CPU
    )


def returning(output: str, text: str = NO_LOSS) -> str:
    """A family without loss() whose model returns `output`, made from the batch `x` of a tuple."""
    module = f"""
import types
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 1)
    def forward(self, x):
        out = self.inner(x)
        return {output}
def build():
    return Model()
def batch(model, workload):
    return (torch.randn(workload.micro_batch, 8),)
"""
    return "import torch\n" + module


def test_build_and_batch_are_enough_where_the_model_returns_its_loss(tmp_path: Path) -> None:
    for output in ("out.mean()", '{"loss": out.mean(), "logits": out}', "types.SimpleNamespace(loss=out.mean())"):
        step = build_step(write_family(tmp_path, returning(output)))
        before = float(step.run())
        assert step.optimizer_steps == 1
        assert float(step.run()) < before


@pytest.mark.parametrize(
    ("made", "call"),
    [
        ("{'x': x}", "forward(self, x)"),
        ("(x,)", "forward(self, x)"),
        ("[x, x]", "forward(self, x, y)"),
        ("x", "forward(self, x)"),
    ],
)
def test_the_default_loss_passes_a_batch_by_its_kind(tmp_path: Path, made: str, call: str) -> None:
    text = returning("out.mean()").replace("forward(self, x)", call)
    text = text.replace(
        "return (torch.randn(workload.micro_batch, 8),)", f"x = torch.randn(workload.micro_batch, 8)\n    return {made}"
    )
    assert build_step(write_family(tmp_path, text)).forward().requires_grad


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("out", r"returned a tensor of shape \(4, 1\) and no loss; write loss\(model, batch\)"),
        ('{"logits": out}', r"returned a dict with logits and no loss in it; write loss"),
        ("(out.mean(), out)", r"returned a tuple without a loss; write loss"),
        ("out.mean().detach()", "does not depend on a parameter that requires gradients"),
        ('{"loss": out}', r"the loss has shape \(4, 1\); take its mean"),
    ],
)
def test_a_model_without_a_usable_loss_is_told_so(tmp_path: Path, output: str, message: str) -> None:
    step = build_step(write_family(tmp_path, returning(output)))
    with pytest.raises(SpecError, match=message):
        step.forward()


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"build": ""}, r"has no function build\(\)"),
        ({"batch": ""}, r"has no function batch\(\)"),
        ({"build": "def build():\n    return 3"}, r"build\(\) of .* returned a int, not an nn\.Module"),
        ({"build": "def build():\n    return torch.nn.Linear(1, 1).eval()"}, r"in eval mode; return model\.train\(\)"),
        ({"build": "def build(depth):\n    return 3"}, r"model\.settings\.depth: build\(\) of .* needs it"),
        ({"batch": "def batch(model, workload):\n    return 'text'"}, "returned a str in which torch finds no tensor"),
        ({"loss": "def loss(model, batch):\n    return 1.0"}, r"loss\(\) returned a float; it must be a scalar tensor"),
    ],
)
def test_what_is_wrong_with_a_family_is_told(tmp_path: Path, replaced: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_step(write_family(tmp_path, **replaced)).forward()


def test_a_setting_that_build_does_not_take_is_told_unless_it_takes_any(tmp_path: Path) -> None:
    spec = dataclasses.replace(write_family(tmp_path), settings={"widht": 3})
    with pytest.raises(SpecError, match=r"model\.settings\.widht: no such setting of .*; there are width"):
        load_family(spec)
    spec = write_family(tmp_path, build="def build(**settings):\n    return torch.nn.Linear(settings['widht'], 1)")
    assert load_family(dataclasses.replace(spec, settings={"widht": 3})).build(widht=3).in_features == 3


def test_a_batch_without_a_generator_is_the_same_in_every_process(tmp_path: Path) -> None:
    spec = write_family(tmp_path)
    first = build_step(spec, accumulation=2)
    torch.manual_seed(123)
    second = build_step(spec, accumulation=2)
    assert first.batch_digest == second.batch_digest
    assert not torch.equal(first.batches[0][0], first.batches[1][0])
    assert build_step(spec, accumulation=2, seed=1).batch_digest != first.batch_digest


def test_a_batch_of_another_size_than_asked_for_is_told(tmp_path: Path) -> None:
    spec = write_family(tmp_path, batch="def batch(model, workload):\n    return {'x': torch.randn(3, 8)}")
    with pytest.raises(
        SpecError, match=r"micro_batch: 4 .* \['x'\] has shape \(3, 8\), so that it is 3; .*num_samples"
    ):
        build_step(spec)


def test_a_family_may_count_its_samples_itself(tmp_path: Path) -> None:
    packed = "def batch(model, workload):\n    return (torch.randn(1, 8),)\n\ndef num_samples(batch):\n    return 4"
    assert len(build_step(write_family(tmp_path, batch=packed)).batches) == 1
    with pytest.raises(SpecError, match=r"num_samples\(\) says 4"):
        build_step(write_family(tmp_path, batch=packed), micro_batch=2)


@pytest.mark.parametrize(
    "made",
    ["{'x': x, 'positions': torch.arange(9)}", "(x, torch.tensor(0.5))", "[torch.tensor(0.5), x]"],
)
def test_samples_are_counted_by_the_first_tensor_with_a_dimension(tmp_path: Path, made: str) -> None:
    spec = write_family(
        tmp_path, batch=f"def batch(model, workload):\n    x = torch.randn(workload.micro_batch, 8)\n    return {made}"
    )
    assert len(build_step(spec).batches) == 1


def test_micro_batches_of_different_shapes_are_one_step_with_one_digest(tmp_path: Path) -> None:
    varying = """lengths = iter((3, 5) * 10)
def batch(model, workload):
    return (torch.ones(workload.micro_batch, next(lengths), 8),)
"""
    spec = write_family(tmp_path, batch=varying)
    step = build_step(spec, accumulation=2)
    assert [batch[0].shape[1] for batch in step.batches] == [3, 5]
    step.run()
    assert step.optimizer_steps == 1
    assert build_step(spec, accumulation=2).batch_digest == step.batch_digest
    assert build_step(spec, accumulation=1).batch_digest != step.batch_digest


def test_a_mapping_that_is_no_dict_is_a_batch_too(tmp_path: Path) -> None:
    spec = write_family(
        tmp_path,
        "from collections import UserDict\n" + GOOD,
        batch="def batch(model, workload):\n    return UserDict(x=torch.randn(workload.micro_batch, 8))",
        loss="def loss(model, batch):\n    return model(batch['x']).mean()",
    )
    assert type(build_step(spec).batches[0]) is dict
