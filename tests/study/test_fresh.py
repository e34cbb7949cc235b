"""`protocol.process=fresh`: a process for every sample, and the same numbers as with one process for all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.frontier import build_frontier
from bench.records import ExecutionStarted, MemorySample, Records, RoundDone, Stopped, TimeSample
from bench.spec import StudySpec
from tests.toy_study import EACH, PROTOCOL, run, toy_controls, toy_study

PLACEMENTS = ("none", EACH, "blocks.0..3")
ROUNDS = 2


def study(process: str) -> StudySpec:
    protocol = dataclasses.replace(PROTOCOL, process=process, rounds_min=ROUNDS, rounds_max=ROUNDS)
    return toy_study(PLACEMENTS, toy_controls(protocol=protocol))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Records]:
    results: Path = tmp_path_factory.mktemp("results")
    return {process: run(study(process), results)[1] for process in ("shared", "fresh")}


def test_every_sample_has_a_process_of_its_own(records: dict[str, Records]) -> None:
    processes = [sample.process for sample in records["fresh"].of(TimeSample)]
    assert len(set(processes)) == len(processes) == ROUNDS * len(PLACEMENTS)
    assert len(records["fresh"].of(ExecutionStarted)) == len(processes) + 1  # one weighs `none` beforehand
    assert len({sample.process for sample in records["shared"].of(TimeSample)}) == 1


def test_peaks_are_those_of_a_shared_process_to_the_byte(records: dict[str, Records]) -> None:
    shared, fresh = (
        {
            sample.placement: (sample.peak_allocated_bytes, sample.retained_bytes, sample.losses, sample.step_flops)
            for sample in records[process].of(MemorySample)
        }
        for process in ("shared", "fresh")
    )
    assert fresh == shared
    assert fresh.keys() == set(PLACEMENTS)


def test_rounds_are_whole_and_the_execution_ends(records: dict[str, Records]) -> None:
    fresh = records["fresh"]
    assert [done.round for done in fresh.of(RoundDone)] == list(range(ROUNDS))
    (stopped,) = fresh.of(Stopped)
    assert (set(stopped.placements), stopped.rounds, stopped.reason) == (set(PLACEMENTS), ROUNDS, "rounds")


def test_samples_of_different_processes_pair_by_their_round(records: dict[str, Records]) -> None:
    frontier = build_frontier(study("fresh"), records["fresh"])
    assert {trial.outcome for trial in frontier.trials} == {"ok"}
    assert {trial.rounds for trial in frontier.trials} == {ROUNDS}
