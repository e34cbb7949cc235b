"""A study directory that cannot be read says which file, why, and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.records import DamagedStudyError, read_records, read_study, write_study
from tests.builders import make_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    write_study(tmp_path, make_study())
    return tmp_path / "study.json"


def test_a_study_that_is_whole_is_read_as_it_was_written(study: Path) -> None:
    assert read_study(study.parent) == make_study()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"name": "gpt2", "key', "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "schema_version None, expected 1; measure the study again"),
        (b'{"schema_version": 99}', "schema_version 99, expected 1"),
        (b'{"schema_version": 1}', "restore the file from a copy, or move the folder away and measure again"),
    ],
)
def test_a_damaged_study_is_told_with_what_to_do(study: Path, content: bytes, reason: str) -> None:
    study.write_bytes(content)
    with pytest.raises(DamagedStudyError) as error:
        read_study(study.parent)
    assert str(error.value).startswith(str(study))
    assert reason in str(error.value)


def test_controls_that_are_not_those_of_the_key_are_told(study: Path) -> None:
    data = json.loads(study.read_text())
    data["controls"]["workload"]["micro_batch"] += 1
    study.write_text(json.dumps(data))
    with pytest.raises(DamagedStudyError, match="its controls are not those of its key"):
        read_study(study.parent)


def test_a_folder_without_a_study_is_told(tmp_path: Path) -> None:
    with pytest.raises(DamagedStudyError, match=r"no study\.json; this is not a study directory"):
        read_study(tmp_path)


@pytest.mark.parametrize("name", ["study.json", "samples.jsonl"])
def test_a_folder_where_a_file_should_be_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    read = read_study if name == "study.json" else read_records
    with pytest.raises(DamagedStudyError, match=rf"{name}: cannot be read \(Is a directory\)"):
        read(tmp_path)


def test_a_study_without_samples_yet_has_no_records(study: Path) -> None:
    assert read_records(study.parent).entries == ()
