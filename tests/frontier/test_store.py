"""frontier.json and frontier.csv."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from bench.frontier import Frontier, build_frontier, read_frontier, write_frontier
from bench.records import DamagedStudyError
from tests.builders import make_records, make_study


def make_frontier() -> Frontier:
    records = make_records(
        {"none": [100.0, 101.0, 99.0], "a": [110.0, 112.0, 111.0]},
        {"none": 80, "a": 40},
        {"b": ("oom", 'tried to allocate 2 GiB, "device full"')},
    )
    return build_frontier(make_study(("none", "a", "b")), records)


def read_rows(directory: Path) -> dict[str, dict[str, str]]:
    with (directory / "frontier.csv").open(newline="", encoding="utf-8") as file:
        return {row["placement"]: row for row in csv.DictReader(file)}


def test_what_was_written_is_read_back_equal(tmp_path: Path) -> None:
    for frontier in (make_frontier(), build_frontier(make_study(), make_records())):
        write_frontier(tmp_path, frontier)
        assert read_frontier(tmp_path) == frontier


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    write_frontier(tmp_path, make_frontier())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_frontier(tmp_path, make_frontier())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert set(before) == {"frontier.json", "frontier.csv"}


def test_an_unmeasured_value_is_an_empty_cell(tmp_path: Path) -> None:
    write_frontier(tmp_path, make_frontier())
    rows = read_rows(tmp_path)
    assert rows["b"]["reason"] == 'tried to allocate 2 GiB, "device full"'
    assert rows["b"]["peak_allocated_bytes"] == rows["b"]["time_ratio"] == rows["b"]["time_ratio_low"] == ""
    assert rows["a"]["peak_reserved_bytes"] == ""


def test_a_measured_value_is_written_in_full(tmp_path: Path) -> None:
    frontier = make_frontier()
    write_frontier(tmp_path, frontier)
    row, trial = read_rows(tmp_path)["a"], frontier.trials[1]
    assert float(row["time_ratio"]) == trial.time_ratio
    assert trial.time_ratio_interval is not None
    assert float(row["time_ratio_high"]) == trial.time_ratio_interval.high
    assert (row["peak_allocated_bytes"], row["on_frontier"], row["generators"]) == ("40", "true", "explicit")


def test_several_generators_share_a_cell(tmp_path: Path) -> None:
    frontier = make_frontier()
    trial = dataclasses.replace(frontier.trials[0], generators=("every block", "spans (2)"))
    write_frontier(tmp_path, dataclasses.replace(frontier, trials=(trial,)))
    assert read_rows(tmp_path)["none"]["generators"] == "every block; spans (2)"


def test_an_absent_a_torn_and_a_foreign_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(DamagedStudyError, match=r"no frontier.json; build it again"):
        read_frontier(tmp_path)
    path = tmp_path / "frontier.json"
    path.write_text('{"schema_version": 1, "stu')
    with pytest.raises(DamagedStudyError, match="not JSON"):
        read_frontier(tmp_path)
    path.write_text("[]")
    with pytest.raises(DamagedStudyError, match="schema_version None, expected 1"):
        read_frontier(tmp_path)
    path.write_text(json.dumps({"schema_version": 1, "study": "toy"}))
    with pytest.raises(DamagedStudyError, match="key: missing"):
        read_frontier(tmp_path)
