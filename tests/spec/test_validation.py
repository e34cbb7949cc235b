"""A wrong request names the option as it was written."""

import dataclasses
from typing import Any

import pytest

from bench.spec import Controls, SpecError, from_mapping, to_mapping, validate_controls
from tests.builders import make_controls


def changed(path: str, value: Any) -> dict[str, Any]:
    data = to_mapping(make_controls())
    *parents, name = path.split(".")
    target = data
    for parent in parents:
        target = target[parent]
    target[name] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("workload.micro_batch", "four", "workload.micro_batch: expected a whole number, got 'four'"),
        ("workload.micro_batch", 1.5, "workload.micro_batch: expected a whole number, got 1.5"),
        ("workload.shape.sequence_length", "x", "workload.shape.sequence_length: expected a whole number"),
        ("workload.sequence", 3, "workload.sequence: no such option; there are micro_batch, accumulation"),
        ("recipe.clip_norm", "x", "recipe.clip_norm: expected a number"),
        ("device.memory_limit_bytes", True, "device.memory_limit_bytes: expected a whole number"),
        ("model", 3, "model: expected a mapping, got 3"),
    ],
)
def test_wrong_types_are_named(path: str, value: Any, message: str) -> None:
    with pytest.raises(SpecError) as error:
        from_mapping(Controls, changed(path, value))
    assert message in str(error.value)


def test_a_missing_option_is_named() -> None:
    data = to_mapping(make_controls())
    del data["model"]["target"]
    with pytest.raises(SpecError, match=r"model\.target: missing"):
        from_mapping(Controls, data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("precision", "fp64", "precision: 'fp64' is not one of fp32"),
        ("workload.micro_batch", 0, "workload.micro_batch: must be at least 1, got 0"),
        ("recipe.zero_grad", "middle", "recipe.zero_grad: 'middle' is not one of start, end"),
        ("recipe.clip_norm", 0.0, "recipe.clip_norm: must be above 0"),
        ("parallelism.world_size", 2, "parallelism.world_size: only 1 runs today"),
        ("protocol.rounds_max", 1, "protocol.rounds_max: must be at least 3"),
        ("protocol.target_half_width", 0.0, "protocol.target_half_width: a share"),
        ("optimizer.name", "adam", "optimizer.name: 'adam' is not one of adamw, sgd"),
    ],
)
def test_values_out_of_range_are_named(path: str, value: Any, message: str) -> None:
    with pytest.raises(SpecError) as error:
        validate_controls(from_mapping(Controls, changed(path, value)))
    assert message in str(error.value)


def test_valid_controls_pass() -> None:
    validate_controls(dataclasses.replace(make_controls()))
