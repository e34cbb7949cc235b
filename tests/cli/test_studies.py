"""Which stored study `study=` names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.cli.studies import find_study
from bench.spec import SpecError


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for age, name in enumerate(["gpt2-00000001", "gpt2-00000002", "t5-00000003"]):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("study.json", "samples.jsonl"):
            (folder / file).touch()
            os.utime(folder / file, (1000 - age, 1000 - age))
    (tmp_path / ".multirun").mkdir()
    return tmp_path


def test_by_name_by_unique_beginning_and_by_folder(results: Path) -> None:
    assert find_study("gpt2-00000002", results).name == "gpt2-00000002"
    assert find_study("t5", results).name == "t5-00000003"
    assert find_study(str(results / "gpt2-00000001"), results / "elsewhere").name == "gpt2-00000001"


def test_no_name_takes_the_study_that_was_written_last(results: Path) -> None:
    assert find_study(None, results).name == "gpt2-00000001"
    os.utime(results / "t5-00000003" / "samples.jsonl", (2000, 2000))
    assert find_study(None, results).name == "t5-00000003"


def test_an_ambiguous_beginning_is_refused_with_the_candidates(results: Path) -> None:
    with pytest.raises(SpecError, match=r"gpt2-00000001, gpt2-00000002; say which"):
        find_study("gpt2", results)


def test_an_unknown_name_is_refused_with_close_ones(results: Path) -> None:
    with pytest.raises(SpecError, match=r"did you mean t5-00000003"):
        find_study("t5-00000004", results)


def test_no_study_at_all_says_how_to_measure_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"python -m bench sweep"):
        find_study(None, tmp_path / "results")
