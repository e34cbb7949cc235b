"""A placement that fails is a row with a reason; the others complete, and it logs no number."""

import dataclasses
import os
from pathlib import Path

import pytest

from bench.frontier import Trial, build_frontier
from bench.records import LOG_FILE, MemorySample, OutcomeRecord
from bench.spec import DeviceSpec, ModelSpec, WorkloadSpec
from bench.study import Progress, run_study
from bench.study.worker_log import MAX_BYTES
from tests.study.fault_studies import NUMBERS, SOUND as LAST, Faulted, fault_blocks, fault_study, run_faulted
from tests.toy_study import EACH, run, toy_controls, toy_study

FAULTY = "blocks.1"
SOUND = "blocks.2"


def trials_of(study: object, results: Path) -> dict[str, Trial]:
    _, records = run(study, results)  # type: ignore[arg-type]
    return {trial.placement: trial for trial in build_frontier(study, records).trials}  # type: ignore[arg-type]


IN_PROCESS = {
    "raise": ("error", "ValueError: the block said no"),
    "exit": ("error", "something in the step called sys.exit(3)"),
    "out-of-memory": ("oom", "can't allocate memory"),
    "print-very-much": ("ok", ""),
    "register-buffer": ("error", "ValueError: after a change of state"),
    "leak": ("leaking", "4000 bytes more are allocated after a step than before it; no garbage collection frees them"),
    "leak-cycle": ("leaking", "4 bytes more are allocated after a step than before it; a garbage collection frees"),
    "double": ("invalid", "the replay does not train the same way"),
}
"""Fault → (outcome, reason)."""


@pytest.fixture(scope="module")
def faulted(tmp_path_factory: pytest.TempPathFactory) -> Faulted:
    return run_faulted(tmp_path_factory.mktemp("faulted"), fault_study(*fault_blocks(*IN_PROCESS)))


@pytest.mark.parametrize(("block", "fault"), list(enumerate(IN_PROCESS)))
def test_a_placement_that_fails_is_a_row_with_a_reason_and_without_a_number(
    faulted: Faulted, block: int, fault: str
) -> None:
    outcome, reason = IN_PROCESS[fault]
    trial = faulted.trials[f"blocks.{block}"]
    assert trial.outcome == outcome
    assert reason in trial.reason
    assert all((getattr(trial, name) is None) is (outcome != "ok") for name in NUMBERS)


def test_the_others_are_measured_in_a_fresh_process_where_the_old_one_may_not_be_sound(faulted: Faulted) -> None:
    assert faulted.outcomes["none"] == faulted.outcomes[LAST] == "ok"
    # After a change of the step's members, after each leak, and after training otherwise.
    assert faulted.num_processes == 5
    (persistent, retained, _), (persistent_before, retained_before, _) = map(faulted.bytes_of, (LAST, "blocks.3"))
    assert (persistent, retained) == (persistent_before, retained_before), "an equal block, weighed before any leak"


def test_a_worker_that_prints_very_much_does_not_fill_the_disk(faulted: Faulted) -> None:
    log = (faulted.directory / LOG_FILE).read_bytes()
    assert len(log) < faulted.num_processes * (MAX_BYTES + 2**20)
    assert b"bytes that the worker printed are left out" in log


def test_a_failure_is_told_at_once(tmp_path: Path) -> None:
    events: list[Progress] = []
    run_study(toy_study(("none", FAULTY, SOUND), toy_controls("raise")), tmp_path, watch=events.append)
    told = next(i for i, event in enumerate(events) if event.message)
    assert events[told].message == "blocks.1: error: ValueError: the block said no"
    assert told < len(events) / 2
    assert events[-1].done == events[-1].total


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("blocks.0.up", "it retains"),  # its input is the saved tensor
        ("blocks.0..3.idle:each", "requested 4 regions, 0 replayed"),  # a dropout of 0 saves nothing
        (f"{EACH}:keep.attention", "keeps attention, and none of these ops was called"),
    ],
)
def test_a_placement_that_changes_nothing_says_so(tmp_path: Path, text: str, reason: str) -> None:
    trial = trials_of(toy_study(("none", text)), tmp_path)[text]
    assert trial.outcome == "no-effect"
    assert reason in trial.reason


def test_a_span_that_cannot_be_formed_is_unsupported(tmp_path: Path) -> None:
    trials = trials_of(toy_study(("none", "blocks.0/blocks.2", EACH)), tmp_path)
    assert trials["blocks.0/blocks.2"].outcome == "unsupported"
    assert "x of blocks.2 is neither an output" in trials["blocks.0/blocks.2"].reason
    assert trials[EACH].outcome == "ok"


def test_a_precision_that_the_device_lacks_is_unsupported_for_all(tmp_path: Path) -> None:
    trials = trials_of(toy_study(controls=toy_controls(precision="fp16-autocast")), tmp_path)
    assert {trial.outcome for trial in trials.values()} == {"unsupported"}
    assert "fp16-autocast needs a GPU" in trials["none"].reason


def test_a_model_that_checkpoints_itself_is_no_baseline(tmp_path: Path) -> None:
    trials = trials_of(toy_study(controls=toy_controls("checkpoints-itself")), tmp_path)
    assert {trial.outcome for trial in trials.values()} == {"error"}
    assert all("the plain model replays by itself" in trial.reason for trial in trials.values())


def test_where_none_does_not_fit_the_fastest_that_does_is_the_reference(tmp_path: Path) -> None:
    # Real memory: the plain step's peak is 357 MiB, that with every block replayed 133 MiB.
    controls = toy_controls(
        model=ModelSpec(name="toy", target="tests.families.toy", settings={"layers": 8, "width": 256}),
        workload=WorkloadSpec(micro_batch=32, shape={"sequence_length": 128}),
        device=DeviceSpec(
            kind="cpu",
            memory_limit_bytes=280 * 2**20,
            allocator={"MALLOC_MMAP_THRESHOLD_": "65536"},  # freed blocks go back to the kernel: no fragmentation
        ),
    )
    texts = ("none", "blocks.0..7:each", "blocks.0..6:each")
    study = toy_study(texts, controls)
    _, records = run(study, tmp_path)
    frontier = build_frontier(study, records)
    trials = {trial.placement: trial for trial in frontier.trials}
    assert trials["none"].outcome == "oom"
    assert trials["none"].peak_allocated_bytes is None
    assert frontier.reference in texts[1:]
    assert frontier.frontier
    assert any(note.startswith("`none` did not fit") for note in frontier.notes)


def test_a_worker_that_somebody_kills_is_no_placements_fault(tmp_path: Path) -> None:
    # The family kills the first worker that replays its block, and no later one.
    controls = toy_controls("kill-once")
    os.environ["TOY_KILLED"] = str(tmp_path / "killed")
    try:
        trials = trials_of(toy_study(("none", FAULTY), controls), tmp_path)
    finally:
        del os.environ["TOY_KILLED"]
    assert (tmp_path / "killed").exists()
    assert {trial.outcome for trial in trials.values()} == {"ok"}


def test_placements_of_a_step_that_does_not_repeat_are_unstable_and_not_invalid(tmp_path: Path) -> None:
    trials = trials_of(toy_study(("none", SOUND), toy_controls("draws-from-python")), tmp_path)
    assert trials["none"].outcome == "ok", "its own time and peak are what they are"
    assert trials[SOUND].outcome == "unstable"
    assert "the plain step does not repeat: from the same state the loss of its step 1 was" in trials[SOUND].reason
    assert all(getattr(trials[SOUND], name) is None for name in NUMBERS)


def test_a_loss_that_is_not_finite_costs_no_measurement(tmp_path: Path) -> None:
    study = toy_study(controls=toy_controls("not-finite"))
    _, records = run(study, tmp_path)
    assert {sample.losses for sample in records.of(MemorySample)} == {(None, None)}
    assert {trial.outcome for trial in build_frontier(study, records).trials} == {"ok"}


def test_a_failing_build_does_not_undo_what_was_measured(tmp_path: Path) -> None:
    os.environ["TOY_NO_BUILD"] = str(tmp_path / "no-build")
    try:
        directory, before = run(toy_study(("none", SOUND)), tmp_path)
        (tmp_path / "no-build").touch()
        _, after = run(toy_study(("none", EACH)), tmp_path)
    finally:
        del os.environ["TOY_NO_BUILD"]
    trials = {t.placement: t for t in build_frontier(toy_study(("none", SOUND, EACH)), after).trials}
    assert {text: trial.outcome for text, trial in trials.items()} == {"none": "ok", SOUND: "ok", EACH: "error"}
    assert after.entries[: len(before.entries)] == before.entries
    assert directory.exists()


def test_an_outcome_is_final_until_retried(tmp_path: Path) -> None:
    study = toy_study(("none", FAULTY), toy_controls("raise"))
    _, first = run(study, tmp_path)
    _, again = run(study, tmp_path)
    assert len(first.of(OutcomeRecord)) == len(again.of(OutcomeRecord)) == 1
    assert dataclasses.asdict(first.entries[-1]) == dataclasses.asdict(again.entries[-1])
