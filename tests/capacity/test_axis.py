"""Axes as people name them, sizes, the controls at a size, and the key that leaves the searched option out."""

from __future__ import annotations

import dataclasses

import pytest

from bench.capacity.axis import (
    accumulation_at,
    asked_axis,
    bound_of,
    controls_at,
    proof_controls_at,
    samples_at,
    sizes_of,
    start_size,
)
from bench.capacity.key import capacity_key
from bench.capacity.types import ASKED, BATCH, DEVICE, GLOBAL_BATCH, MICRO_BATCH, MODEL, SHAPE
from bench.spec import Controls, ModelSpec, SpecError, WorkloadSpec
from tests.builders import make_controls
from tests.capacity.capacities import make_spec

GPT2 = make_controls(
    model=ModelSpec(
        name="gpt2", target="models.gpt2", settings={"layers": 12, "width": 768, "heads": 12, "positions": 1024}
    ),
    workload=WorkloadSpec(micro_batch=4, accumulation=6, shape={"sequence_length": 256}),
)
VIT = make_controls(
    model=ModelSpec(name="vit", target="models.vit", settings={"image_size": 224, "layers": 12, "dropout": 0.0}),
    workload=WorkloadSpec(micro_batch=8, shape={"image_size": 224}),
)


@pytest.mark.parametrize(
    ("controls", "name", "path", "multiple", "kind", "start"),
    [
        (GPT2, "micro-batch", "workload.micro_batch", 1, BATCH, 4),
        (GPT2, "sequence-length", "workload.shape.sequence_length", 64, SHAPE, 256),
        (GPT2, "layers", "model.settings.layers", 1, MODEL, 12),
        (GPT2, "width", "model.settings.width", 96, MODEL, 768),
        (GPT2, "positions", "model.settings.positions", 1, MODEL, 1024),
        (VIT, "image-size", "workload.shape.image_size", 32, MODEL, 224),
    ],
)
def test_an_axis_is_the_option_that_has_its_name(
    controls: Controls, name: str, path: str, multiple: int, kind: str, start: int
) -> None:
    axis = asked_axis(name, controls)
    assert (axis.path, axis.multiple, axis.kind, start_size(axis, controls)) == (path, multiple, kind, start)


def test_a_name_that_shape_and_settings_share_changes_both() -> None:
    spec = make_spec(VIT, "image-size")
    assert spec.axis.also == ("model.settings.image_size",)
    at = controls_at(spec, 320)
    assert at.workload.shape == {"image_size": 320}
    assert at.model.settings["image_size"] == 320
    assert VIT.model.settings["image_size"] == 224


def test_an_unknown_axis_names_close_ones() -> None:
    with pytest.raises(SpecError, match=r"axis: no 'layer' .* did you mean layers\?"):
        asked_axis("layer", GPT2)
    with pytest.raises(SpecError, match="there are heads, layers, micro-batch, positions, sequence-length, width"):
        asked_axis("depth", GPT2)


@pytest.mark.parametrize(("multiple", "largest"), [(0, None), (64, 63)])
def test_sizes_that_cannot_be_are_refused(multiple: int, largest: int | None) -> None:
    with pytest.raises(SpecError, match=r"^(multiple|largest): "):
        bound_of(asked_axis("sequence-length", GPT2, multiple), GPT2, MICRO_BATCH, largest)


def test_a_sequence_is_searched_as_far_as_the_model_has_positions() -> None:
    assert bound_of(asked_axis("sequence-length", GPT2), GPT2, MICRO_BATCH, None) == 1024


def test_with_the_global_batch_kept_sizes_are_its_divisors_and_accumulation_follows() -> None:
    spec = make_spec(GPT2, keep=GLOBAL_BATCH)
    sizes = sizes_of(spec)
    assert [sizes[i] for i in range(sizes.count)] == [1, 2, 3, 4, 6, 8, 12, 24]
    for size in (1, 8, 24):
        workload = controls_at(spec, size).workload
        assert (workload.micro_batch, workload.micro_batch * workload.accumulation) == (size, 24)
        assert samples_at(spec, size) == 24
    assert accumulation_at(spec, 8) == 3


def test_else_the_optimizer_sees_more_samples_at_a_larger_size() -> None:
    spec = make_spec(GPT2)
    assert controls_at(spec, 10).workload.accumulation == 6
    assert samples_at(spec, 10) == 60


def test_the_global_batch_is_kept_along_the_micro_batch_alone() -> None:
    with pytest.raises(SpecError, match="keep: global-batch is for axis=micro-batch"):
        bound_of(asked_axis("layers", GPT2), GPT2, GLOBAL_BATCH, None)
    with pytest.raises(SpecError, match="keep: 'batch' is not one of micro-batch, global-batch"):
        bound_of(asked_axis("micro-batch", GPT2), GPT2, "batch", None)


def test_variable_lengths_are_proven_at_full_length_and_timed_as_asked() -> None:
    workload = dataclasses.replace(GPT2.workload, lengths="variable")
    spec = make_spec(dataclasses.replace(GPT2, workload=workload))
    assert controls_at(spec, 8).workload.lengths == "variable"
    assert proof_controls_at(spec, 8).workload.lengths == "fixed"


def key(controls: Controls, axis: str = "micro-batch", **changed: object) -> str:
    asked: dict[str, object] = {
        "limit_bytes": 1000,
        "limit_source": ASKED,
        "headroom": 0.0,
        "keep": MICRO_BATCH,
        "evaluation": False,
    }
    return capacity_key(controls, asked_axis(axis, controls), **asked | changed)  # type: ignore[arg-type]


def with_workload(**changed: object) -> Controls:
    return dataclasses.replace(GPT2, workload=dataclasses.replace(GPT2.workload, **changed))  # type: ignore[arg-type]


def test_the_key_leaves_out_the_searched_option_alone() -> None:
    assert key(with_workload(micro_batch=64)) == key(GPT2)
    assert key(with_workload(accumulation=2)) != key(GPT2)
    assert key(with_workload(micro_batch=64), "layers") != key(GPT2, "layers")
    for changed in ({"limit_bytes": 2000}, {"headroom": 0.1}, {"evaluation": True}, {"keep": GLOBAL_BATCH}):
        assert key(GPT2, **changed) != key(GPT2)


def test_a_whole_number_and_the_same_number_with_a_point_are_one_key() -> None:
    pointed, whole = (
        dataclasses.replace(
            GPT2, model=dataclasses.replace(GPT2.model, settings={**GPT2.model.settings, "dropout": dropout})
        )
        for dropout in (0.0, 0)
    )
    assert key(pointed) == key(whole)


def test_with_the_global_batch_kept_the_product_is_in_the_key_and_its_factors_are_not() -> None:
    kept = key(GPT2, keep=GLOBAL_BATCH)
    assert key(with_workload(micro_batch=12, accumulation=2), keep=GLOBAL_BATCH) == kept
    assert key(with_workload(micro_batch=12, accumulation=3), keep=GLOBAL_BATCH) != kept


def test_the_devices_own_limit_counts_by_name() -> None:
    assert key(GPT2, limit_source=DEVICE) == key(GPT2, limit_source=DEVICE, limit_bytes=2000)
