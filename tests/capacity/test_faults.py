"""Faults of a probe, each in real processes: what is a matter of memory, what is not, and what is kept."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.capacity.store import PROBES_FILE, capacity_path, read_capacity_records, write_spec
from bench.capacity.types import (
    AT_BOUND,
    DATA_ENDS,
    DOES_NOT_FIT,
    FAILED,
    FITS,
    NOT_TRIED,
    NOT_VALID,
    SETTLED,
    CapacitySpec,
    Expected,
    Probe,
    SampleFailed,
    TimedSample,
)
from bench.spec import GATE, OptimizerSpec, to_mapping
from bench.study.auditing import Audited as AuditAnswer
from bench.study.capacity import answer_of
from bench.study.capacity_process import run_asked
from bench.study.supervise import WorkerError
from tests.capacity.capacities import EACH, MIB, Ran, entries_of, limited_controls, make_spec, run_spec

FAIL_FROM = 7
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for workers that build the net of these tests


def limited(
    largest: int = 7, placements: tuple[str, ...] = ("none",), evaluation: bool = False, **settings: object
) -> CapacitySpec:
    """Memory is no bound here; what fails does."""
    return make_spec(
        limited_controls(**settings), largest=largest, evaluation=evaluation, placements=entries_of(*placements)
    )


def outcomes(ran: Ran) -> dict[int, str]:
    return {probe.size: probe.outcome for probe in ran.records.of(Probe)}


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("forward", "out-of-memory"),
        pytest.param("backward", "cublas", marks=pytest.mark.slow),
        pytest.param("optimizer", "cpu-allocator", marks=pytest.mark.slow),
        pytest.param("evaluation", "memory-error", marks=pytest.mark.slow),
    ],
)
def test_an_allocation_that_fails_anywhere_does_not_fit(tmp_path: Path, where: str, how: str) -> None:
    spec = limited(evaluation=where == "evaluation", fail_from=FAIL_FROM, where=where, how=how)
    ran = run_spec(spec, tmp_path)
    row = ran.row()
    assert (row.ended, row.largest, row.next_size, row.next_outcome) == (SETTLED, 6, 7, DOES_NOT_FIT)
    failed = next(probe for probe in ran.records.of(Probe) if probe.size == FAIL_FROM)
    assert failed.stage == where
    assert failed.peak_allocated_bytes is None
    assert row.next_peak_bytes is None


@pytest.mark.slow
def test_an_evaluation_that_is_not_asked_for_cannot_fail(tmp_path: Path) -> None:
    spec = limited(fail_from=FAIL_FROM, where="evaluation", how="memory-error")
    assert run_spec(spec, tmp_path).row().ended == AT_BOUND


def test_an_error_that_is_not_about_memory_is_never_does_not_fit(tmp_path: Path) -> None:
    ran = run_spec(limited(fail_from=FAIL_FROM, where="forward", how="value"), tmp_path)
    row = ran.row()
    assert (row.ended, row.largest, row.next_size, row.next_outcome) == (FAILED, 6, 7, "error")
    assert "ValueError: the shapes 3 and 4 do not go together" in row.reason
    assert DOES_NOT_FIT not in outcomes(ran).values()
    assert not ran.answer.is_complete


@pytest.mark.slow
def test_an_error_at_every_size_is_named_and_no_size_is_claimed(tmp_path: Path) -> None:
    row = run_spec(limited(fail_from=1, where="backward", how="value"), tmp_path).row()
    assert (row.ended, row.largest, row.peak_allocated_bytes) == (FAILED, None, None)
    assert "ValueError" in row.reason


def test_a_step_that_does_nothing_does_not_fit_anywhere(tmp_path: Path) -> None:
    controls = limited_controls()
    still = dataclasses.replace(controls, optimizer=OptimizerSpec(settings={"lr": 0.0, "weight_decay": 0.0}))
    ran = run_spec(make_spec(still, largest=8), tmp_path)
    (probe,) = ran.records.of(Probe)
    assert (probe.outcome, probe.optimizer_steps) == ("no-step", 2)
    assert (ran.row().ended, ran.row().largest) == (FAILED, None)
    assert "changed no weight" in ran.row().reason


def test_a_batch_larger_than_the_data_ends_the_search_there(tmp_path: Path) -> None:
    ran = run_spec(limited(largest=64, samples=11), tmp_path)
    row = ran.row()
    assert (row.ended, row.largest, row.next_size, row.next_outcome) == (DATA_ENDS, 11, 12, DATA_ENDS)
    assert "12 samples are asked for" in row.next_reason
    assert ran.answer.rows[0].num_probes <= 4
    assert next(probe for probe in ran.records.of(Probe) if probe.size == 12).stage == "batch"


def test_a_batch_of_the_right_size_is_counted_and_digested(tmp_path: Path) -> None:
    ran = run_spec(limited(largest=5), tmp_path)
    (probe,) = ran.records.of(Probe)
    assert (probe.size, probe.outcome, probe.optimizer_steps, probe.num_samples) == (5, FITS, 2, 5)
    assert probe.batch_digest is not None
    assert len(probe.batch_digest) == 16


@pytest.mark.slow
def test_a_worker_that_dies_each_time_is_a_crash_and_what_was_proven_stays(tmp_path: Path) -> None:
    ran = run_spec(limited(fail_from=FAIL_FROM, where="backward", how="kill"), tmp_path)
    row = ran.row()
    assert (row.ended, row.largest, row.next_outcome) == (FAILED, 6, "crashed")
    assert next(probe for probe in ran.records.of(Probe) if probe.size == FAIL_FROM).stage == "backward"
    assert any("is run once more" in line for line in ran.said)


@pytest.mark.slow
def test_a_worker_that_somebody_kills_once_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMITED_KILLED", str(tmp_path / "killed"))
    ran = run_spec(limited(fail_from=FAIL_FROM, where="forward", how="kill-once"), tmp_path)
    assert (tmp_path / "killed").exists()
    assert (ran.row().ended, ran.row().largest) == (AT_BOUND, 7)


def test_a_probe_is_not_started_where_the_machine_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.study.capacity_room.free_bytes", lambda root: 700 * MIB)
    ran = run_spec(limited(), tmp_path)
    assert set(outcomes(ran).values()) == {NOT_TRIED}
    assert ran.row().largest is None
    assert "this machine has 0 MiB to spare" in ran.row().reason


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[CapacitySpec, Path]:
    """A search of two placements with times."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("BENCH_LOCK_DIR", str(folder / "locks"))
        spec = dataclasses.replace(limited(largest=6, placements=("none", EACH)), rounds=3, multiples=(2,), start=2)
        run_spec(spec, folder)
    return spec, folder


def test_the_same_command_again_asks_nothing_twice(finished: tuple[CapacitySpec, Path]) -> None:
    spec, folder = finished
    before = (capacity_path(folder, spec) / PROBES_FILE).read_bytes()
    ran = run_spec(spec, folder)
    assert (ran.directory / PROBES_FILE).read_bytes() == before
    assert ran.answer.is_complete
    assert {row.placement: row.largest for row in ran.answer.rows} == {"none": 6, EACH: 6}
    assert len(ran.records.of(TimedSample)) == 6
    assert {sample.num_units for sample in ran.records.of(TimedSample)} == {6}


def test_more_rounds_add_to_those_that_are_there(finished: tuple[CapacitySpec, Path], tmp_path: Path) -> None:
    spec, folder = finished
    directory = capacity_path(tmp_path, spec)
    write_spec(directory, spec)
    (directory / PROBES_FILE).write_bytes((capacity_path(folder, spec) / PROBES_FILE).read_bytes())
    ran = run_spec(dataclasses.replace(spec, rounds=4), tmp_path)
    assert sorted({sample.round for sample in ran.records.of(TimedSample)}) == [0, 1, 2, 3]
    assert len(ran.records.of(Probe)) == len(read_capacity_records(capacity_path(folder, spec)).of(Probe))


def test_a_worker_that_dies_over_a_point_is_not_asked_for_it_again(tmp_path: Path) -> None:
    spec = limited(largest=2, placements=("none", EACH), fail_from=2, where="backward", how="exit-while-timed")
    ran = run_spec(dataclasses.replace(spec, rounds=3, multiples=(), start=2), tmp_path)
    assert [(f.placement, f.size, f.outcome) for f in ran.records.of(SampleFailed)] == [
        ("none", 2, "crashed"),
        (EACH, 2, "crashed"),
    ]
    assert not ran.records.of(TimedSample)
    assert {row.largest for row in ran.answer.rows} == {2}, "what was proven stays"
    assert not ran.answer.is_complete


def test_no_round_begins_that_would_end_after_the_time_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a worker takes no time on the parent's clock here, and all of the cap on the worker's."""
    monkeypatch.setattr("bench.study.capacity_time.time", SimpleNamespace(monotonic=lambda: 0.0))
    spec = dataclasses.replace(limited(largest=2), rounds=5, multiples=(), start=2, time_cap_s=1e-6)
    ran = run_spec(spec, tmp_path)
    assert len(ran.records.of(TimedSample)) == 1
    assert any("time cap" in note for note in ran.answer.notes)


def test_a_worker_that_has_said_all_and_does_not_end_is_ended(tmp_path: Path) -> None:
    heard: list[tuple[str, object]] = []
    controls = limited_controls()
    found = run_asked("tests.capacity.lingering", {}, controls, tmp_path, 6.0, lambda *line: heard.append(line))
    assert heard == [("answer", 1)]
    assert found.ending.silence is not None
    assert not found.ended_well


def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *answers: AuditAnswer | WorkerError) -> Ran:
    """A search whose audits, one after the other, end so."""
    left = list(answers)

    def ask(*_: object, **__: object) -> AuditAnswer:
        answer = left.pop(0)
        if isinstance(answer, WorkerError):
            raise answer
        return answer

    monkeypatch.setattr("bench.study.capacity_audit.ask_process", ask)
    spec = dataclasses.replace(limited(largest=2, placements=("none", EACH)), audit=GATE, start=2)
    ran = run_spec(spec, tmp_path)
    assert not left
    return ran


def test_an_audit_that_dies_once_is_asked_again_before_anything_is_held_against_the_placement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = gated(tmp_path, monkeypatch, WorkerError("died by Killed"), WorkerError("died by Killed"))
    assert (ran.row(EACH).ended, ran.row(EACH).largest) == (NOT_VALID, None)
    assert "died by Killed" in ran.row(EACH).reason


def test_what_cannot_be_audited_since_the_plain_step_never_fits_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = gated(tmp_path, monkeypatch, AuditAnswer(verdicts=(), unaudited="the plain step fits with no batch"))
    assert (ran.row(EACH).ended, ran.row(EACH).largest) == (AT_BOUND, 2)
    assert f"{EACH} was searched unaudited: the plain step fits with no batch" in ran.answer.notes


PARENT = """
import json, sys
from pathlib import Path
from bench.capacity.types import CapacitySpec
from bench.spec import from_mapping
from bench.study.capacity import run_capacity
spec = from_mapping(CapacitySpec, json.loads(Path(sys.argv[1]).read_text()))
run_capacity(spec, Path(sys.argv[2]), watch=lambda event: None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lines", [3, 6, 12])
def test_a_parent_that_is_killed_at_any_moment_loses_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    spec = dataclasses.replace(limited(largest=6, placements=("none", EACH)), rounds=3, multiples=(), start=2)
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps(to_mapping(spec)))
    path = capacity_path(tmp_path, spec) / PROBES_FILE
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(asked), str(tmp_path)], cwd=ROOT)
    until = time.monotonic() + 120
    while parent.poll() is None and time.monotonic() < until:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            os.kill(parent.pid, signal.SIGKILL)
            break
    parent.wait()
    assert parent.returncode == -signal.SIGKILL, "it ended before it could be killed"

    proven = {(p.placement, p.size) for p in read_capacity_records(path.parent).of(Probe)}
    largest = {row.placement: row.largest for row in answer_of(path.parent).rows}
    for placement, size in proven:
        assert (largest[placement] or 0) >= size
    ran = run_spec(spec, tmp_path)
    asked_once = [(probe.placement, probe.size) for probe in ran.records.of(Probe)]
    assert len(asked_once) == len(set(asked_once))
    forecast = [(expected.placement, expected.size) for expected in ran.records.of(Expected)]
    assert len(forecast) == len(set(forecast))
    assert ran.answer.is_complete
    assert all(row.throughput is not None and row.throughput.rounds >= 3 for row in ran.answer.rows)
