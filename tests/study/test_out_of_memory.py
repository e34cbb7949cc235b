"""A placement that runs out of memory, in whatever phase of whatever stage, leaves no byte behind for the next."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from bench.measure.memory_cpu import ALLOCATION
from bench.records import OutcomeRecord, RecordWriter
from bench.worker.bench import Bench
from bench.worker.guard import guarded
from bench.worker.journal import Journal
from tests.study.fault_studies import NUMBERS, ONE_ROUND, SOUND, Faulted, fault_blocks, fault_study, run_faulted

PHASES = ("forward", "replay", "backward", "optimizer", "timed")
OTHERS = fault_blocks(*(f"{index}.{phase}:out-of-memory" for index, phase in enumerate(PHASES)))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Faulted:
    """The same placements without a fault."""
    return run_faulted(tmp_path_factory.mktemp("sound"), fault_study("", OTHERS[1]))


@pytest.fixture(scope="module")
def faulted(tmp_path_factory: pytest.TempPathFactory) -> Faulted:
    """One placement runs out of memory in each phase; then comes one that does not."""
    return run_faulted(tmp_path_factory.mktemp("faulted"), fault_study(*OTHERS))


def test_out_of_memory_in_any_phase_is_oom_and_has_no_number(faulted: Faulted) -> None:
    assert faulted.outcomes == {"none": "ok", **dict.fromkeys(OTHERS[1], "oom"), SOUND: "ok"}
    for text in OTHERS[1]:
        assert "can't allocate memory" in faulted.trials[text].reason
        assert all(getattr(faulted.trials[text], name) is None for name in NUMBERS)
    stages = {record.placement: record.stage for record in faulted.records.of(OutcomeRecord)}
    assert [stages[text] for text in OTHERS[1]] == ["memory"] * 4 + ["time"]


def test_what_comes_after_out_of_memory_in_one_process_has_the_same_bytes(faulted: Faulted, sound: Faulted) -> None:
    assert faulted.num_processes == sound.num_processes == 1
    assert faulted.bytes_of(SOUND) == sound.bytes_of(SOUND)
    assert faulted.bytes_of("none") == sound.bytes_of("none")


@pytest.mark.parametrize(
    ("place", "stage", "processes", "warmup_steps"),
    [("plain.1", "first-step", 2, 0), ("plain.2", "memory", 1, 0), ("plain.4", "warmup", 1, 1)],
)
def test_where_the_plain_step_runs_out_of_memory_the_others_go_on_with_the_same_bytes(
    tmp_path: Path, sound: Faulted, place: str, stage: str, processes: int, warmup_steps: int
) -> None:
    protocol = dataclasses.replace(ONE_ROUND, warmup_steps_min=warmup_steps, warmup_steps_max=warmup_steps)
    faulted = run_faulted(tmp_path, fault_study(f"{place}:out-of-memory", ("blocks.0",), protocol=protocol))
    assert faulted.outcomes == {"none": "oom", "blocks.0": "ok", SOUND: "ok"}
    assert [record.stage for record in faulted.records.of(OutcomeRecord)] == [stage]
    assert faulted.num_processes == processes
    for text in ("blocks.0", SOUND):
        assert faulted.bytes_of(text) == sound.bytes_of(text)


def test_a_model_that_does_not_fit_even_unplaced_is_oom_for_all(tmp_path: Path) -> None:
    faulted = run_faulted(tmp_path, fault_study("build:out-of-memory", ()))
    assert faulted.outcomes == {"none": "oom", SOUND: "oom"}
    assert "the step cannot be built" in faulted.trials[SOUND].reason


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()  # Bench freezes what there is


@pytest.mark.parametrize("phase", ["forward", "replay", "backward", "optimizer"])
@pytest.mark.usefixtures("thawed")
def test_recovery_frees_every_byte_that_the_failing_step_took(tmp_path: Path, phase: str) -> None:
    # Held against the allocator's own events, since a block that an exception's frames hold is in no reading of a
    # later step: it was allocated before, and is never freed.
    study = fault_study(f"0.{phase}:out-of-memory", ("blocks.0",))
    bench = Bench(study.controls, torch.device("cpu"), ("none", "blocks.0"))
    bench.step.run()
    bench.keep_state()
    journal = Journal(RecordWriter(tmp_path), 0, frozenset({"blocks.0"}))

    def step() -> None:
        with bench.placed("blocks.0"):
            bench.step.run()

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        assert not guarded(bench, journal, "time", "blocks.0", step)
    assert recording.profiler is not None
    assert recording.profiler.kineto_results is not None
    changes = [event.nbytes() for event in recording.profiler.kineto_results.events() if event.name() == ALLOCATION]
    assert max(changes) >= 2**20, "the block that the failing frame holds was not seen"
    assert sum(changes) == 0
