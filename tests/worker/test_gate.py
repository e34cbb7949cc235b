"""The gate of a study: what is not proved to train the same is not measured, and its twin with @restore may be.

Executions run in this process, one after another as the parent would start them; in processes of their own where one
dies.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.frontier import Frontier, build_frontier
from bench.records import (
    AuditRecord,
    ExecutionStarted,
    OutcomeRecord,
    Records,
    Starting,
    Stopped,
    next_work,
    read_records,
    read_study,
    study_path,
    write_study,
)
from bench.records.directory import SAMPLES_FILE
from bench.spec import ModelSpec, ProtocolSpec, StudySpec, WorkloadSpec, audit_key
from bench.study.run import extend
from bench.worker import fresh, run as execution
from bench.worker.auditing import Auditing
from bench.worker.run import run_execution
from tests.toy_study import PROTOCOL, run, toy_controls, toy_study

CAP_S = 3600.0
EACH, TWIN = "blocks.0..3:each", "blocks.0..3:each@restore"


def moving(
    moves: str = "",
    placements: Sequence[str] = ("none", EACH),
    *,
    limit: int = 0,
    protocol: ProtocolSpec = PROTOCOL,
    **options: Any,
) -> StudySpec:
    settings = {"moves": moves, "limit": limit}
    controls = toy_controls(
        model=ModelSpec(name="moving", target="tests.families.moving", settings=settings),
        workload=WorkloadSpec(micro_batch=32, shape={"sequence_length": 1}),
        protocol=protocol,
    )
    study = dataclasses.replace(toy_study(placements, controls), name="moving")
    return dataclasses.replace(study, **{"audit": "gate", "restore": "auto"} | options)


def run_here(study: StudySpec, results: Path, begins: Callable[[], None] = lambda: None) -> tuple[Path, Records]:
    """`begins` is called where the parent would start a process."""
    directory = study_path(results, study)
    write_study(directory, extend(read_study(directory), study) if directory.exists() else study)
    while next_work(read_study(directory), read_records(directory)) is not None:
        begins()
        assert run_execution(directory, lambda controls: torch.device(controls.device.kind)) == 0
    return directory, read_records(directory)


def frontier_of(directory: Path, records: Records) -> Frontier:
    return build_frontier(read_study(directory), records)


def outcomes(frontier: Frontier) -> dict[str, tuple[str, str | None]]:
    return {trial.placement: (trial.outcome, trial.audit) for trial in frontier.trials}


def audits_begun(records: Records) -> Counter[str | None]:
    return Counter(record.placement for record in records.of(Starting) if record.stage == "audit")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Records]:
    """A study of BatchNorm's buffers, its placement turned away and the twin measured. Tests leave it as it is."""
    return run_here(moving("norm"), tmp_path_factory.mktemp("measured"))


def test_a_valid_placement_is_measured_and_carries_its_verdict(tmp_path: Path) -> None:
    directory, records = run_here(moving("mask"), tmp_path)
    frontier = frontier_of(directory, records)
    assert outcomes(frontier) == {"none": ("ok", None), EACH: ("ok", "valid")}
    assert not [note for note in frontier.notes if "audited" in note]
    (verdict,) = records.of(AuditRecord)
    assert (verdict.placement, verdict.differing, verdict.tolerance, verdict.kinds) == (EACH, 0, 0.0, ())


def test_what_moves_state_twice_is_not_measured_and_its_twin_stands_on_the_frontier(
    measured: tuple[Path, Records],
) -> None:
    directory, records = measured
    frontier = frontier_of(directory, records)
    assert outcomes(frontier) == {"none": ("ok", None), EACH: ("invalid", "invalid"), TWIN: ("ok", "valid")}
    trials = {trial.placement: trial for trial in frontier.trials}
    assert TWIN in frontier.frontier
    assert trials[TWIN].twin_of == EACH
    assert trials[TWIN].generators == (f"twin of {EACH}",)
    assert trials[EACH].peak_allocated_bytes is None
    assert trials[EACH].audit_kinds == ("state",)
    assert trials[EACH].reason.startswith("state: blocks.3: ")
    assert "buffer blocks.3.norm." in trials[EACH].reason
    assert trials[EACH].reason.endswith("; @restore")
    assert {placement for started in records.of(ExecutionStarted)[-1:] for placement in started.placements} == {
        "none",
        TWIN,
    }


def test_with_restore_off_an_invalid_placement_has_no_twin(tmp_path: Path) -> None:
    directory, records = run_here(moving("norm", restore="off"), tmp_path)
    assert outcomes(frontier_of(directory, records)) == {"none": ("ok", None), EACH: ("invalid", "invalid")}
    assert [record.placement for record in records.of(AuditRecord)] == [EACH]


def test_what_nobody_can_put_back_has_no_twin(tmp_path: Path) -> None:
    directory, records = run_here(moving("outside"), tmp_path)
    frontier = frontier_of(directory, records)
    assert outcomes(frontier) == {"none": ("ok", None), EACH: ("invalid", "invalid")}
    assert frontier.trials[1].audit_kinds[0] == "external"


def test_without_an_audit_the_frontier_says_so(tmp_path: Path) -> None:
    directory, records = run_here(moving("norm", audit="off"), tmp_path)
    frontier = frontier_of(directory, records)
    assert outcomes(frontier) == {"none": ("ok", None), EACH: ("ok", None)}
    assert any(note.startswith("not audited") for note in frontier.notes)
    assert not records.of(AuditRecord)


def test_a_known_verdict_costs_nothing_in_a_longer_study_of_the_same_model(
    measured: tuple[Path, Records], tmp_path: Path
) -> None:
    first = Path(shutil.copytree(measured[0], tmp_path / measured[0].name))
    longer = dataclasses.replace(PROTOCOL, rounds_max=4)
    directory, records = run_here(moving("norm", protocol=longer), tmp_path)
    assert directory != first
    assert not audits_begun(records)
    assert {record.placement: record.reused_from for record in records.of(AuditRecord)} == {
        EACH: first.name,
        TWIN: first.name,
    }
    assert outcomes(frontier_of(directory, records))[TWIN] == ("ok", "valid")


def test_an_extension_audits_what_is_new_alone(tmp_path: Path) -> None:
    run_here(moving(), tmp_path)
    directory, records = run_here(moving(placements=("none", "blocks.0")), tmp_path)
    assert audits_begun(records) == {EACH: 1, "blocks.0": 1}
    assert outcomes(frontier_of(directory, records))["blocks.0"] == ("ok", "valid")


def test_a_second_execution_audits_nothing_again(tmp_path: Path) -> None:
    _, records = run_here(moving(protocol=dataclasses.replace(PROTOCOL, executions=2)), tmp_path)
    assert {record.execution for record in records.of(ExecutionStarted)} == {0, 1}
    assert audits_begun(records) == {EACH: 1}


def test_a_kill_in_the_middle_of_an_audit_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_DIES_IN_REPLAY", str(tmp_path / "killed"))
    directory, records = run(moving("norm"), tmp_path)
    assert (tmp_path / "killed").exists()
    assert audits_begun(records)[EACH] >= 2
    assert outcomes(frontier_of(directory, records)) == {
        "none": ("ok", None),
        EACH: ("invalid", "invalid"),
        TWIN: ("ok", "valid"),
    }


def test_a_twin_whose_audit_takes_its_process_down_is_to_blame_and_not_its_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_ENDS_RESTORED", "")
    directory, records = run(moving("norm"), tmp_path)
    assert outcomes(frontier_of(directory, records)) == {"none": ("ok", None), EACH: ("invalid", "invalid")}
    assert {record.placement: record.outcome for record in records.of(OutcomeRecord)} == {
        TWIN: "crashed",
        EACH: "invalid",
    }
    assert audits_begun(records) == {EACH: 1, TWIN: 1}, "it is not tried again"


@pytest.mark.parametrize("num_lines_lost", [1, 3])
def test_records_that_end_between_verdict_and_outcome_come_to_the_same(
    measured: tuple[Path, Records], tmp_path: Path, num_lines_lost: int
) -> None:
    """As a kill leaves them: without the outcome, and without the twin's verdict and the line before it."""
    directory = Path(shutil.copytree(measured[0], tmp_path / measured[0].name))
    lines = (directory / SAMPLES_FILE).read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"kind":"outcome"' in line)
    (directory / SAMPLES_FILE).write_bytes(b"".join(lines[: at + 1 - num_lines_lost]))
    if num_lines_lost > 1:  # the twin joins the study after its verdict
        write_study(directory, moving("norm"))
    _, records = run_here(moving("norm"), tmp_path)
    assert outcomes(frontier_of(directory, records)) == outcomes(frontier_of(*measured))
    assert [o.placement for o in records.of(OutcomeRecord)] == [EACH]


def test_where_none_does_not_fit_the_audit_takes_a_smaller_batch_and_says_so(tmp_path: Path) -> None:
    directory, records = run_here(moving("norm", limit=10), tmp_path)
    frontier = frontier_of(directory, records)
    assert outcomes(frontier) == {"none": ("oom", None), EACH: ("invalid", "invalid"), TWIN: ("ok", "valid")}
    note = "audited with one micro-batch of 8, since the plain step at 32 does not fit"
    assert {record.batch_note for record in records.of(AuditRecord)} == {note}
    assert any(said.startswith(note) for said in frontier.notes)


def test_where_none_fits_with_no_batch_placements_are_measured_unaudited(tmp_path: Path) -> None:
    directory, records = run_here(moving("", limit=-1), tmp_path)
    frontier = frontier_of(directory, records)
    assert outcomes(frontier) == {"none": ("oom", None), EACH: ("ok", None)}
    assert any(note.startswith("not audited") for note in frontier.notes)


def test_with_a_process_for_each_sample_the_gate_holds_too(tmp_path: Path) -> None:
    fresh = dataclasses.replace(PROTOCOL, process="fresh", rounds_min=1, rounds_max=1)
    directory, records = run_here(moving("norm", protocol=fresh), tmp_path)
    assert {trial.placement: trial.audit for trial in frontier_of(directory, records).trials} == {
        "none": None,
        EACH: "invalid",
        TWIN: "valid",
    }
    assert audits_begun(records) == {EACH: 1, TWIN: 1}, "a twin is audited with its original"


@pytest.mark.parametrize("process", ["shared", "fresh"])
def test_audits_take_nothing_from_the_time_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: str) -> None:
    """On simulated clocks that each audit alone puts forward, by ten times the cap."""
    passed_s, at_begin_s = [0.0], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: passed_s[0])
    monkeypatch.setattr(time, "time", lambda: 1.7e9 + passed_s[0])
    for module in (fresh, execution):  # which is long of a process that has run other tests before
        monkeypatch.setattr(module, "process_age_s", lambda: 1.0 + passed_s[0] - at_begin_s[0])
    audit = Auditing.verdict

    def slow_audit(auditing: Auditing, placement: str) -> Any:
        passed_s[0] += 10 * CAP_S
        return audit(auditing, placement)

    monkeypatch.setattr(Auditing, "verdict", slow_audit)
    study = moving("mask", protocol=dataclasses.replace(PROTOCOL, process=process))
    study = dataclasses.replace(study, caps=dataclasses.replace(study.caps, time_cap_s=CAP_S))
    _, records = run_here(study, tmp_path, begins=lambda: at_begin_s.__setitem__(0, passed_s[0]))
    assert passed_s[0] == 10 * CAP_S
    assert {(stop.rounds, stop.reason) for stop in records.of(Stopped)} == {(PROTOCOL.rounds_max, "rounds")}


def test_a_verdict_holds_for_any_protocol_and_for_no_other_precision_or_placement() -> None:
    controls = moving().controls
    longer = dataclasses.replace(controls, protocol=dataclasses.replace(PROTOCOL, rounds_max=40))
    other = dataclasses.replace(controls, precision="bf16-autocast")
    assert audit_key(longer, EACH) == audit_key(controls, EACH)
    assert len({audit_key(controls, EACH), audit_key(controls, TWIN), audit_key(other, EACH)}) == 3
