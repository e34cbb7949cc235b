"""What happens to a study's files while it is measured costs nothing that was measured, and the command goes on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.records import MemorySample, OutcomeRecord, TimeSample, read_records, study_path
from bench.spec import StudySpec
from bench.study import WorkerError, run_study
from tests.study.fault_studies import SOUND, fault_blocks, fault_study, run_faulted
from tests.toy_study import samples_taken, toy_study


def measure(study: StudySpec, results: Path) -> None:
    run_study(study, results, watch=lambda event: None)


def test_a_deleted_file_and_a_full_disk_end_the_study_with_what_to_do_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_MARKS", str(tmp_path))
    study = fault_study(*fault_blocks("delete-records", "fill-disk"))
    directory = study_path(tmp_path, study)

    with pytest.raises(WorkerError, match=r"samples\.jsonl: was deleted while it was written to; it has been put back"):
        measure(study, tmp_path)
    after_deletion = read_records(directory)
    weighed = {s.placement for s in after_deletion.of(MemorySample)}
    assert weighed == {"none", "blocks.0"}, "what was measured while the file was away is there too"

    with pytest.raises(WorkerError, match=r"samples\.jsonl: cannot be written \(File too large\); raise the limit"):
        measure(study, tmp_path)
    after_full_disk = read_records(directory)
    assert after_full_disk.damaged_lines == ()
    assert after_full_disk.entries[: len(after_deletion.entries)] == after_deletion.entries
    assert len(after_full_disk.entries) > len(after_deletion.entries)

    faulted = run_faulted(tmp_path, study)
    assert set(faulted.outcomes.values()) == {"ok"}, "none of it was a placement's fault"
    assert faulted.records.of(OutcomeRecord) == []
    assert faulted.records.entries[: len(after_full_disk.entries)] == after_full_disk.entries
    assert len(faulted.records.of(MemorySample)) == len(faulted.outcomes), "nothing was weighed twice"
    taken = samples_taken(faulted.records)
    assert len(taken) == len(set(taken))
    assert {s.placement for s in faulted.records.of(TimeSample)} == {"none", "blocks.0", "blocks.1", SOUND}


@pytest.mark.parametrize("name", ["log.txt", "samples.jsonl", "environment.json"])
def test_a_folder_where_a_file_should_be_is_told(tmp_path: Path, name: str) -> None:
    study = toy_study(("none",))
    directory = study_path(tmp_path, study)
    (directory / name).mkdir(parents=True)
    with pytest.raises((WorkerError, ValueError), match=f"{name}: cannot be (written|read) .Is a directory.; m"):
        measure(study, tmp_path)
    (directory / name).rmdir()
    assert read_records(directory).of(OutcomeRecord) == []


def test_a_log_on_a_full_disk_costs_no_measurement(tmp_path: Path) -> None:
    study = toy_study(("none",), dataclasses.replace(toy_study().controls))
    directory = study_path(tmp_path, study)
    directory.mkdir(parents=True)
    (directory / "log.txt").symlink_to("/dev/full")
    faulted = run_faulted(tmp_path, study)
    assert faulted.outcomes == {"none": "ok"}
