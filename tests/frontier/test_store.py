"""frontier.json and frontier.csv."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from bench.frontier import Frontier, build_frontier, read_frontier, write_frontier
from bench.frontier.store import load_frontier
from bench.records import DamagedStudyError, read_records, read_study
from tests.builders import make_records, make_study
from tests.synthetic_studies import write_synthetic_study


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


def measured_directory(results: Path) -> Path:
    return write_synthetic_study(results, seed=0, num_placements=3, num_rounds=4)


def change_what_is_stored(directory: Path) -> None:
    """So that a test sees whether `frontier.json` was taken or the records were read."""
    path = directory / "frontier.json"
    path.write_text(path.read_text().replace('"device": "Toy CPU"', '"device": "Stored CPU"'))


def test_a_frontier_of_these_records_is_loaded_as_it_is_stored(tmp_path: Path) -> None:
    directory = measured_directory(tmp_path)
    assert load_frontier(directory) == build_frontier(read_study(directory), read_records(directory))
    change_what_is_stored(directory)
    assert load_frontier(directory).device == "Stored CPU"


@pytest.mark.parametrize("name", ["samples.jsonl", "study.json"])
def test_a_frontier_of_other_records_or_another_study_is_built_anew(tmp_path: Path, name: str) -> None:
    directory = measured_directory(tmp_path)
    change_what_is_stored(directory)
    with (directory / name).open("a") as file:
        file.write("\n")
    assert load_frontier(directory).device == "Toy CPU"


def test_a_copy_of_a_study_is_as_up_to_date_as_the_study(tmp_path: Path) -> None:
    directory = measured_directory(tmp_path)
    change_what_is_stored(directory)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("frontier.json", "samples.jsonl", "study.json"):  # in an order that times of change would mistake
        (copy / name).write_bytes((directory / name).read_bytes())
    assert load_frontier(copy).device == "Stored CPU"


def test_a_frontier_that_does_not_say_what_it_is_of_or_is_damaged_is_built_anew(tmp_path: Path) -> None:
    directory = measured_directory(tmp_path)
    expected = load_frontier(directory)
    write_frontier(directory, dataclasses.replace(expected, device="Stored CPU"))
    assert load_frontier(directory) == expected
    (directory / "frontier.json").write_text('{"schema_version": 1, "stu')
    assert load_frontier(directory) == expected


def test_loading_writes_nothing(tmp_path: Path) -> None:
    directory = measured_directory(tmp_path)
    (directory / "frontier.json").unlink()
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    load_frontier(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_what_other_code_built_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = measured_directory(tmp_path)
    change_what_is_stored(directory)
    monkeypatch.setattr("bench.frontier.store._code_digest", lambda: b"of another version")
    assert load_frontier(directory).device == "Toy CPU"
