"""The control key covers everything held fixed: each control in turn changes it."""

import dataclasses
import re
from typing import Any

import pytest

from bench.frontier import merge_records
from bench.spec import Controls, control_key, differing_controls, from_mapping, to_mapping
from tests.builders import make_controls, make_records, make_study

CONTROLS = make_controls()
SPECS = ("model", "workload", "optimizer", "recipe", "parallelism", "device", "protocol", "facts")
OTHER: dict[str, Any] = {"zero_grad": "start", "clip_norm": 1.0, "memory_limit_bytes": 2**30}


def _fields() -> list[tuple[str, str]]:
    nested = [(spec, field.name) for spec in SPECS for field in dataclasses.fields(getattr(CONTROLS, spec))]
    return [*(pair for pair in nested if pair != ("device", "index")), ("precision", "")]


def _other(value: Any, name: str) -> Any:
    if name in OTHER:
        return OTHER[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return (*value, "x")
    return {**value, "x": 1}


@pytest.mark.parametrize(("spec", "field"), _fields())
def test_each_control_changes_the_key_and_forbids_a_merge(spec: str, field: str) -> None:
    if field:
        part = getattr(CONTROLS, spec)
        changed = dataclasses.replace(
            CONTROLS, **{spec: dataclasses.replace(part, **{field: _other(getattr(part, field), field)})}
        )
    else:
        changed = dataclasses.replace(CONTROLS, precision="bf16-pure")
    assert control_key(changed) != control_key(CONTROLS)
    names = differing_controls(CONTROLS, changed)
    assert names
    assert all(name.startswith(f"{spec}.{field}".rstrip(".")) for name in names)
    studies = [(make_study(controls=controls), make_records()) for controls in (CONTROLS, changed)]
    with pytest.raises(ValueError, match=re.escape(next(iter(names)))):
        merge_records(studies)


def test_which_of_several_equal_devices_it_was_is_no_control() -> None:
    other = make_controls(device=dataclasses.replace(CONTROLS.device, index=3))
    assert control_key(other) == control_key(CONTROLS)


def test_the_key_survives_json() -> None:
    assert control_key(from_mapping(Controls, to_mapping(CONTROLS))) == control_key(CONTROLS)


def test_order_of_settings_does_not_matter() -> None:
    first = make_controls(model=dataclasses.replace(CONTROLS.model, settings={"a": 1, "b": 2}))
    second = make_controls(model=dataclasses.replace(CONTROLS.model, settings={"b": 2, "a": 1}))
    assert control_key(first) == control_key(second)


def test_zero_and_zero_point_zero_are_one_setting() -> None:
    whole, decimal = (
        make_controls(model=dataclasses.replace(CONTROLS.model, settings={"dropout": value})) for value in (0, 0.0)
    )
    assert control_key(whole) == control_key(decimal)


def test_controls_that_were_not_probed_have_no_key() -> None:
    with pytest.raises(ValueError, match="probe the worker first"):
        control_key(make_controls(facts=None))
