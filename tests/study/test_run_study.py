"""A study from end to end, with real workers: what is measured, resumed, extended."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from bench.frontier import build_frontier
from bench.records import (
    ExecutionStarted,
    MemorySample,
    RoundDone,
    Stopped,
    TimeSample,
    read_records,
    read_study,
    study_path,
)
from bench.records.directory import STUDY_FILE
from bench.records.lock import StudyBusyError, study_lock
from bench.spec import Caps, Facts, SpecError, StudySpec, control_key, to_mapping
from bench.study import WorkerError, run_study
from tests.toy_study import EACH, PROTOCOL, run, samples_taken, toy_controls, toy_study

SPAN = "blocks.0..1"


def peaks(records: object) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for sample in records.of(MemorySample):  # type: ignore[attr-defined]
        found.setdefault(sample.placement, set()).add(sample.peak_allocated_bytes)
    return found


def test_every_placement_is_weighed_once_and_timed_in_every_round(tmp_path: Path) -> None:
    study = toy_study(("none", EACH, SPAN))
    _, records = run(study, tmp_path)
    assert Counter(s.placement for s in records.of(MemorySample)) == {"none": 1, EACH: 1, SPAN: 1}
    assert Counter(s.placement for s in records.of(TimeSample)) == {"none": 3, EACH: 3, SPAN: 3}
    for sample in records.of(TimeSample):
        assert sample.optimizer_steps == 1
        assert len({s.batch_digest for s in records.of(TimeSample)}) == 1
        assert sum(sample.step_times_ms) == pytest.approx(sample.wall_ms, rel=0.2, abs=1)
    by_placement = {s.placement: s for s in records.of(TimeSample)}
    assert [(e.first_passes, e.replays) for e in by_placement[EACH].effects] == [(1, 1)] * 4
    assert [stop.reason for stop in records.of(Stopped)] == ["rounds"]
    assert [trial.outcome for trial in build_frontier(study, records).trials] == ["ok"] * 3


def test_losses_of_all_placements_are_equal(tmp_path: Path) -> None:
    _, records = run(toy_study(("none", EACH, SPAN)), tmp_path)
    assert len({sample.losses for sample in records.of(MemorySample)}) == 1


def test_rounds_are_shuffled(tmp_path: Path) -> None:
    texts = ("none", EACH, SPAN, "blocks.0", "blocks.3")
    _, records = run(toy_study(texts), tmp_path)
    orders = {number: tuple(s.placement for s in records.of(TimeSample) if s.round == number) for number in range(3)}
    assert len(set(orders.values())) > 1


def test_a_placement_put_first_or_last_has_the_same_peak_to_the_byte(tmp_path: Path) -> None:
    texts = (EACH, "none", SPAN)
    _, first = run(toy_study(texts), tmp_path / "first")
    _, last = run(toy_study(texts[::-1]), tmp_path / "last")
    assert peaks(first) == peaks(last)


def test_executions_are_processes_of_their_own_with_equal_peaks(tmp_path: Path) -> None:
    controls = toy_controls(protocol=dataclasses.replace(PROTOCOL, executions=2))
    _, records = run(toy_study(("none", EACH), controls), tmp_path)
    assert len({(s.execution, s.process) for s in records.of(ExecutionStarted)}) == 2
    assert all(len(of_placement) == 1 for of_placement in peaks(records).values())
    assert Counter(s.execution for s in records.of(TimeSample)) == {0: 6, 1: 6}


def test_a_rerun_measures_nothing_again(tmp_path: Path) -> None:
    study = toy_study()
    directory, _ = run(study, tmp_path)
    before = (directory / "samples.jsonl").read_bytes()
    run(study, tmp_path)
    assert (directory / "samples.jsonl").read_bytes() == before


def test_an_extension_measures_the_new_placement_and_the_reference_alone(tmp_path: Path) -> None:
    _, before = run(toy_study(("none", EACH)), tmp_path)
    _, after = run(toy_study(("none", SPAN)), tmp_path)
    assert after.entries[: len(before.entries)] == before.entries
    added = [entry for entry in after.entries[len(before.entries) :] if isinstance(entry, (MemorySample, TimeSample))]
    assert {entry.placement for entry in added} == {"none", SPAN}
    assert Counter(e.placement for e in added if isinstance(e, MemorySample)) == {SPAN: 1}
    study = toy_study(("none", EACH, SPAN))
    assert [t.outcome for t in build_frontier(study, after).trials] == ["ok"] * 3
    assert {entry.text for entry in _study_of(tmp_path).placements} == {"none", EACH, SPAN}


def _study_of(results: Path) -> StudySpec:
    return read_study(study_path(results, toy_study()))


def test_a_study_that_its_time_cap_cut_goes_on_when_it_is_given_more(tmp_path: Path) -> None:
    _, cut = run(toy_study(caps=Caps(time_cap_s=0.001)), tmp_path)
    assert [(stop.reason, stop.rounds) for stop in cut.of(Stopped)] == [("time cap", 1)]
    _, same = run(toy_study(caps=Caps(time_cap_s=0.001)), tmp_path)
    assert same.entries == cut.entries
    _, longer = run(toy_study(caps=Caps(time_cap_s=600.0)), tmp_path)
    assert longer.entries[: len(cut.entries)] == cut.entries
    assert longer.of(Stopped)[-1].reason == "rounds"
    assert Counter(s.placement for s in longer.of(TimeSample)) == {"none": 3, EACH: 3}
    assert len(longer.of(MemorySample)) == 2


def test_a_study_that_is_being_measured_is_left_alone(tmp_path: Path) -> None:
    study = toy_study()
    directory = study_path(tmp_path, study)
    directory.mkdir(parents=True)
    with study_lock(directory), pytest.raises(WorkerError, match="another worker is measuring this study"):
        run(study, tmp_path)
    assert not (directory / STUDY_FILE).exists()


def test_another_control_makes_another_study(tmp_path: Path) -> None:
    first, _ = run(toy_study(("none",)), tmp_path)
    second, _ = run(toy_study(("none",), toy_controls(precision="bf16-autocast")), tmp_path)
    assert first != second


def test_a_study_without_none_gets_it_as_reference(tmp_path: Path) -> None:
    _, records = run(toy_study((EACH,)), tmp_path)
    assert {s.placement for s in records.of(TimeSample)} == {"none", EACH}


def test_a_study_of_another_machine_is_refused(tmp_path: Path) -> None:
    study = toy_study()
    facts = dataclasses.replace(study.controls.facts or Facts(device_name="", versions={}), device_name="Other CPU")
    controls = dataclasses.replace(study.controls, facts=facts)
    study = dataclasses.replace(study, controls=controls, key=control_key(controls))
    with pytest.raises(SpecError, match=r"facts\.device_name: the study was made for Other CPU"):
        run_study(study, tmp_path, watch=lambda event: None)


RUN_IN_CHILD = """
import json, sys
from pathlib import Path
from bench.spec import StudySpec, from_mapping
from bench.study import run_study
run_study(from_mapping(StudySpec, json.loads(sys.argv[1])), Path(sys.argv[2]), watch=lambda event: None)
"""


def start_parent(study: StudySpec, results: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN_IN_CHILD, json.dumps(to_mapping(study)), str(results)], start_new_session=True
    )


def wait_for(condition: object, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not condition():  # type: ignore[operator]
        assert process.poll() is None, "the study ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("victim", ["all processes", "the parent alone"])
def test_a_killed_study_goes_on_where_it_was(tmp_path: Path, victim: str) -> None:
    protocol = dataclasses.replace(PROTOCOL, rounds_min=40, rounds_max=40, steps_per_sample=3)
    controls = toy_controls(protocol=protocol, workload=dataclasses.replace(toy_controls().workload, micro_batch=64))
    study = toy_study(("none", EACH, SPAN), controls)
    directory = study_path(tmp_path, study)
    process = start_parent(study, tmp_path)
    wait_for(lambda: (directory / STUDY_FILE).exists() and len(read_records(directory).of(TimeSample)) >= 10, process)
    if victim == "all processes":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    wait_until_free(directory)
    killed = read_records(directory)
    _, records = run(study, tmp_path)

    taken = samples_taken(records)
    assert len(taken) == len(set(taken)), "a sample was measured twice"
    assert records.entries[: len(killed.entries)] == killed.entries, "a sample was lost"
    whole = {(r.process, r.round) for r in records.of(RoundDone)}
    assert len(whole) == 40
    torn = {(s.process, s.round) for s in records.of(TimeSample)} - whole
    assert len(torn) <= 1, "more than the round in flight was lost"
    assert len({record.process for record in records.of(ExecutionStarted)}) == 2
    assert len(records.of(MemorySample)) == 3


def wait_until_free(directory: Path) -> None:
    """Until the worker is gone: it dies with its parent, but not in the same instant."""
    deadline = time.monotonic() + 10
    while True:
        try:
            with study_lock(directory):
                return
        except StudyBusyError:
            assert time.monotonic() < deadline, "the worker outlived its parent"
            time.sleep(0.05)


def test_a_torn_last_line_is_left_behind(tmp_path: Path) -> None:
    study = toy_study()
    directory, before = run(study, tmp_path)
    with (directory / "samples.jsonl").open("a") as file:
        file.write('{"kind":"time","execution":0,"proc')
    _, after = run(toy_study(("none", EACH, SPAN)), tmp_path)
    assert len(after.damaged_lines) == 1
    assert after.entries[: len(before.entries)] == before.entries
    assert len(after.entries) > len(before.entries)
