"""From records to a frontier."""

from __future__ import annotations

import time

import numpy as np
import pytest

from bench.frontier import build_frontier
from bench.spec import DeviceSpec
from tests.builders import CAPACITY_BYTES, make_controls, make_records, make_study

PEAKS = {"none": 100, "a": 60, "b": 40, "c": 70}
TIMES = {"none": [100.0] * 3, "a": [104.0] * 3, "b": [130.0] * 3, "c": [120.0] * 3}


def test_the_frontier_runs_from_the_highest_peak_to_the_lowest() -> None:
    frontier = build_frontier(make_study(tuple(TIMES)), make_records(TIMES, PEAKS))
    assert frontier.frontier == ("none", "a", "b")
    assert {trial.placement for trial in frontier.trials if trial.on_frontier} == {"none", "a", "b"}


def test_the_knee_and_the_hypervolume_are_in_units_of_the_reference() -> None:
    frontier = build_frontier(make_study(tuple(TIMES)), make_records(TIMES, PEAKS))
    assert frontier.knee == "a"
    assert frontier.hypervolume is not None
    assert frontier.hypervolume.value == pytest.approx(1.0 * 0.1 + 0.96 * 0.4 + 0.7 * 0.2)
    assert (frontier.hypervolume.time_ratio_bound, frontier.hypervolume.peak_ratio_bound) == (2.0, 1.1)


def test_an_invalid_placement_stays_off_the_frontier_however_good_it_looks() -> None:
    records = make_records(TIMES, PEAKS | {"b": 1}, {"b": ("invalid", "loss differs in step 1")})
    frontier = build_frontier(make_study(tuple(TIMES)), records)
    assert frontier.frontier == ("none", "a")
    assert next(trial for trial in frontier.trials if trial.placement == "b").on_frontier is False


def test_where_none_does_not_fit_there_is_a_frontier_all_the_same() -> None:
    times, peaks = ({name: values[name] for name in ("a", "b", "c")} for values in (TIMES, PEAKS))
    records = make_records(times, peaks, {"none": ("oom", "tried to allocate 2 GiB")})  # type: ignore[arg-type]
    frontier = build_frontier(make_study(tuple(TIMES)), records)
    assert frontier.reference == "a"
    assert frontier.frontier == ("a", "b")
    assert frontier.hypervolume is not None
    assert frontier.hypervolume.value == pytest.approx(1.0 * 0.1 + 0.75 * (1 - 40 / 60))


def test_a_study_without_results_has_an_empty_frontier() -> None:
    frontier = build_frontier(make_study(("none", "a")), make_records())
    assert (frontier.reference, frontier.frontier, frontier.knee, frontier.hypervolume) == (None, (), None, None)
    assert [trial.outcome for trial in frontier.trials] == ["pending", "pending"]


def test_two_placements_equal_in_both_are_both_on_the_frontier() -> None:
    records = make_records({"none": [100.0], "a": [110.0], "b": [110.0]}, {"none": 80, "a": 40, "b": 40})
    assert set(build_frontier(make_study(("none", "a", "b")), records).frontier) == {"none", "a", "b"}


def test_it_names_its_study_model_device_and_controls() -> None:
    study = make_study(controls=make_controls(device=DeviceSpec(kind="cpu", allocator={"MALLOC_TOP_PAD_": "1"})))
    frontier = build_frontier(study, make_records())
    assert frontier.study == f"toy-{study.key[:8]}"
    assert (frontier.key, frontier.model, frontier.device) == (study.key, "toy", "Toy CPU")
    assert frontier.capacity_bytes == CAPACITY_BYTES
    assert frontier.controls["workload.shape.sequence_length"] == 16
    assert frontier.controls["device.allocator.MALLOC_TOP_PAD_"] == "1"
    assert frontier.controls["facts.attention_kernels"] == ["flash"]


def test_two_hundred_placements_take_well_under_a_second() -> None:
    generator = np.random.default_rng(0)
    placements = ("none", *(f"p{index}" for index in range(199)))
    times = {placement: (100 + generator.normal(size=10)).tolist() for placement in placements}
    peaks = {placement: 1000 - index for index, placement in enumerate(placements)}
    study, records = make_study(placements), make_records(times, peaks)
    start = time.process_time()
    build_frontier(study, records)
    # 0.1 s on a quiet core; the bound only keeps it from becoming quadratic in Python.
    assert time.process_time() - start < 2
