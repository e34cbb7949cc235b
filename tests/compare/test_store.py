"""The files of a comparison."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from bench.compare import compare, read_comparison, write_comparison
from bench.records import DamagedStudyError
from tests.compare.studies import failed, longer_sequences, measured


def test_a_comparison_is_read_back_as_it_was(tmp_path: Path) -> None:
    comparison = compare([measured(seed=1), measured(seed=2), failed()], "test")
    write_comparison(tmp_path / "new", comparison)
    assert read_comparison(tmp_path / "new") == comparison


def test_the_reference_point_is_stored(tmp_path: Path) -> None:
    write_comparison(tmp_path, compare([measured(), measured(seed=1)], "test"))
    stored = json.loads((tmp_path / "comparison.json").read_text())
    assert stored["reference_point"] == {"time_ratio": 2.0, "peak_ratio": 1.1}
    assert stored["schema_version"] == 1


def test_the_table_has_a_row_for_each_candidate_scale_and_budget(tmp_path: Path) -> None:
    other = measured(seed=2, controls=longer_sequences(512))
    write_comparison(tmp_path, compare([measured(), measured(seed=1), other], "test", shares=[0.6, 0.8]))
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["label"], row["scale"], row["budget_share"]) for row in rows] == [
        (label, scale, share)
        for label in ("B", "C")
        for scale in ("relative", "absolute")
        for share in ("0.6", "0.8", "")
    ]
    assert {row["like_for_like"] for row in rows if row["label"] == "C" and row["scale"] == "absolute"} == {"false"}


def test_what_was_not_measured_is_an_empty_cell(tmp_path: Path) -> None:
    write_comparison(tmp_path, compare([measured(), failed()], "test"))
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["candidate_time"] for row in rows} == {""}


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedStudyError, match="compare the studies again"):
        read_comparison(tmp_path)
    (tmp_path / "comparison.json").write_text('{"schema_version": 0}')
    with pytest.raises(DamagedStudyError, match="schema_version"):
        read_comparison(tmp_path)
