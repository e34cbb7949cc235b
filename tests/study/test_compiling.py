"""Compiled steps beside a study, asked of the real process: what is kept, and what becomes of it where it fails."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.device.lock import DIRECTORY_VARIABLE
from bench.records import MemorySample, read_records, read_study
from bench.records.compiled import AOT_EAGER, COMPILED_FILE, EAGER, read_compiled
from bench.report.compiled_data import compiled_points
from bench.spec import GATE, ModelSpec, SpecError, StudySpec, WorkloadSpec
from bench.study.compiling import ask_compiled, compile_study
from tests.toy_study import run, toy_controls, toy_study
from tests.worker.test_compiled import DROPS

BUDGETS = (1.0, 0.3)
BREAKS = """
import os, sys
if "bench.worker.compiled" in sys.orig_argv:
    os._exit(3)
"""


def gated(folder: Path) -> StudySpec:
    """Of a model that counts nothing, unlike the toy family: torch compiles anew for every number."""
    file = folder / "blocks.py"
    file.write_text(DROPS)
    controls = toy_controls(model=ModelSpec(name="blocks", target=str(file)), workload=WorkloadSpec(micro_batch=64))
    return dataclasses.replace(toy_study(("none",), controls), name="blocks", chains=(), audit=GATE)


def compiled_alone(study: StudySpec, directory: Path, *solvers: str, budgets: tuple[float, ...] = BUDGETS) -> list[str]:
    """What was told that must not be overwritten."""
    told: list[str] = []
    compile_study(
        directory, study, solvers, lambda event: told.append(event.message) if event.message else None, budgets=budgets
    )
    return told


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study's directory, measured and compiled. Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DIRECTORY_VARIABLE, str(folder / "locks"))
        directory, _ = run(gated(folder), folder)
        assert compiled_alone(read_study(directory), directory, "greedy") == []
    return directory


def test_every_budget_is_compiled_measured_timed_and_audited(whole: Path) -> None:
    there = read_compiled(whole)
    assert (there.problem, there.backend) == (None, AOT_EAGER)
    points = compiled_points(there, 0.02)
    assert [(point.solver, point.budget, point.outcome) for point in points] == [
        ("greedy", 1.0, "ok"),
        ("greedy", 0.3, "ok"),
    ]
    for point in points:
        assert point.peak_allocated_bytes
        assert point.time_ratio
        assert point.rounds == 3
        assert point.audit in ("valid", "valid-within-tolerance")


def test_the_plain_step_beside_them_has_the_peak_of_none_in_the_study(whole: Path) -> None:
    (none,) = read_records(whole).of(MemorySample)
    plain = next(program for program in read_compiled(whole).programs if program.name == EAGER)
    assert plain.peak_allocated_bytes == none.peak_allocated_bytes
    assert plain.persistent_bytes == none.persistent_bytes


def test_what_is_there_is_not_measured_again(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.study.compiling.ask_process", None)  # another would call it
    before = (whole / COMPILED_FILE).read_bytes()
    assert compiled_alone(read_study(whole), whole, "greedy") == []
    assert compiled_alone(read_study(whole), whole, "greedy", budgets=(0.3,)) == []
    assert compiled_alone(read_study(whole), whole) == [], "no solver asks for nothing"
    assert (whole / COMPILED_FILE).read_bytes() == before


def test_what_is_new_is_measured_with_what_was_there(whole: Path, tmp_path: Path) -> None:
    (tmp_path / COMPILED_FILE).write_bytes((whole / COMPILED_FILE).read_bytes())
    assert compiled_alone(read_study(whole), tmp_path, "dp", budgets=(0.0,)) == []
    there = read_compiled(tmp_path)
    assert {(choice.solver, choice.budget) for choice in there.choices} == {
        (solver, budget) for solver in ("greedy", "dp") for budget in (1.0, 0.3, 0.0)
    }
    assert {sample.round for sample in there.samples} == {0, 1, 2}, "all in rounds of one process"


def test_a_model_that_counts_its_steps_is_noted_to_be_compiled_anew(tmp_path: Path) -> None:
    (told,) = compiled_alone(toy_study(), tmp_path, "greedy", budgets=(1.0,))
    assert told.startswith("compiled anew while they were measured, so their times are too long: ")
    assert read_compiled(tmp_path).notes == (told,)


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / COMPILED_FILE).write_text('{"schema_version": 1, "choic')
    assert (read_compiled(tmp_path).problem or "").startswith("compiled.json cannot be read (")
    compiled_alone(toy_study(), tmp_path, "greedy", budgets=(1.0,))
    there = read_compiled(tmp_path)
    assert (there.problem, len(there.choices)) == (None, 1)
    assert [program.audit for program in there.programs] == [None, None], "the study has no audits, so neither has this"


def test_a_process_that_dies_is_told_and_noted_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BREAKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    directory = tmp_path / "study"
    (told,) = compiled_alone(toy_study(), directory, "greedy")
    assert told.startswith("nothing was compiled: the compiled step ended with exit code 3")
    assert read_compiled(directory).notes == (told,)
    assert compiled_alone(toy_study(), directory, "greedy") == []


def test_a_wrong_option_is_told_as_it_was_written() -> None:
    with pytest.raises(SpecError, match="compiled: 'fast' is not one of dp, greedy, ilp"):
        ask_compiled(toy_controls(), ("fast",))
