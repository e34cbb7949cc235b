"""`measure`: a training script's own step gives the records, the frontier and the plots of any study."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.cli.project import draw
from bench.measure import measure_memory
from bench.own.execution import FreshProcessError
from bench.own.step import BATCH_NOT_GIVEN
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.region_forward import in_replay
from bench.records import MemorySample, OutcomeRecord, Stopped, TimeSample, read_records, read_study
from bench.spec import OptimizerSpec, SpecError
from bench.worker.bench import Bench
from tests.own.own_step import EACH, Script, script
from tests.toy_study import toy_controls


def outcomes(directory: Path) -> dict[str, str]:
    return {record.placement: record.outcome for record in read_records(directory).of(OutcomeRecord)}


def losses(directory: Path) -> dict[str, tuple[float | None, ...]]:
    return {sample.placement: sample.losses for sample in read_records(directory).of(MemorySample)}


def test_a_step_is_measured_under_every_placement_and_none(tmp_path: Path) -> None:
    study = script().measure(tmp_path, EACH, "blocks.0..3", name="mine")
    records = read_records(study.directory)
    assert study.directory.name.startswith("mine-")
    assert {s.placement for s in records.of(MemorySample)} == {"none", EACH, "blocks.0..3"}
    assert sorted(s.placement for s in records.of(TimeSample)) == sorted(["none", EACH, "blocks.0..3"] * 3)
    assert [stop.reason for stop in records.of(Stopped)] == ["rounds"]
    assert {trial.outcome for trial in study.frontier.trials} == {"ok"}
    assert study.winner in study.frontier.frontier


def test_the_study_is_like_any_other_to_those_who_read_it(tmp_path: Path) -> None:
    study = script().measure(tmp_path, plots=True)
    assert EACH.partition(":")[0] in study.table()
    assert (study.directory / "plots" / "frontier.png").is_file()
    assert draw(study.directory).frontier == study.frontier


def test_the_peak_is_that_of_the_same_step_built_from_controls(tmp_path: Path) -> None:
    own = script()
    study = own.measure(tmp_path, batch=own.batch)
    bench = Bench(
        toy_controls(optimizer=OptimizerSpec(settings={"lr": 1e-3}, fused=False)), torch.device("cpu"), [EACH]
    )
    bench.step.run()
    bench.keep_state()
    for sample in read_records(study.directory).of(MemorySample):
        bench.restore_state()
        with bench.placed(sample.placement):
            reading = measure_memory(bench.step.run, bench.persistent_tensors, bench.device)
        assert sample.persistent_bytes == reading.persistent_bytes
        assert sample.retained_bytes == reading.retained_bytes
        # Ours keeps a running total of its micro-batches' losses: one fp32 number.
        assert sample.peak_allocated_bytes == reading.peak_bytes - 4
        assert sample.peak_phase == reading.peak_phase


def test_everything_is_as_it_was_afterwards(tmp_path: Path) -> None:
    own = script()
    own.step()
    schedule = torch.optim.lr_scheduler.LinearLR(own.optimizer)
    once = own.step

    def step() -> torch.Tensor:
        loss: torch.Tensor = once()
        schedule.step()
        return loss

    own.step = step
    weights = copy.deepcopy(own.model.state_dict())
    optimizer = copy.deepcopy(own.optimizer.state_dict())
    before, rng = schedule.state_dict(), torch.get_rng_state()
    own.measure(tmp_path, state=[schedule])
    for name, tensor in own.model.state_dict().items():
        assert torch.equal(tensor, weights[name])
    after = own.optimizer.state_dict()
    assert after["param_groups"] == optimizer["param_groups"]
    for parameter, state in after["state"].items():
        assert all(torch.equal(state[key], optimizer["state"][parameter][key]) for key in state)
    assert schedule.state_dict() == before
    assert torch.equal(torch.get_rng_state(), rng)
    assert all(parameter.grad is None for parameter in own.model.parameters())
    assert not any("forward" in vars(module) for module in own.model.modules())
    assert not own.optimizer._optimizer_step_post_hooks
    assert not own.model._forward_pre_hooks
    assert gc.isenabled()
    assert torch.autograd.backward.__module__ == "torch.autograd"


def test_called_again_it_measures_only_what_is_missing(tmp_path: Path) -> None:
    first = script().measure(tmp_path)
    lines = (first.directory / "samples.jsonl").read_bytes()
    assert script().measure(tmp_path).directory == first.directory
    assert (first.directory / "samples.jsonl").read_bytes() == lines
    more = script().measure(tmp_path, EACH, "blocks.0..1:each")
    assert more.directory == first.directory
    weighed = [sample.placement for sample in read_records(more.directory).of(MemorySample)]
    assert weighed == ["none", EACH, "blocks.0..1:each"]


def test_what_differs_in_anything_held_fixed_is_another_study(tmp_path: Path) -> None:
    def another_step(own: Script) -> Script:
        own.step = lambda once=own.step: once()
        return own

    def frozen(own: Script) -> Script:
        next(own.model.parameters()).requires_grad_(False)
        return own

    studies: list[tuple[Script, dict[str, Any]]] = [
        (script(), {}),
        (script(micro_batches=2), {}),
        (another_step(script()), {}),
        (frozen(script()), {}),
        (script(), {"controls": {"dataset": "web-3"}}),
        (script(), {"controls": {"dataset": "web-4"}}),
    ]
    directories = {own.measure(tmp_path, "none", **options).directory for own, options in studies}
    assert len(directories) == len(studies)


def test_what_is_seen_of_the_step_is_recorded_as_its_controls(tmp_path: Path) -> None:
    own = script(micro_batches=2, zero_grad_first=True)
    study = read_study(own.measure(tmp_path, controls={"dataset": "web-3"}).directory)
    controls = study.controls
    assert (controls.workload.micro_batch, controls.workload.accumulation) == (2, 2)
    assert (controls.model.target, dict(controls.model.settings)) == ("own", {"dataset": "web-3"})
    assert (controls.optimizer.name, controls.optimizer.settings["lr"]) == ("adamw", 1e-3)
    assert controls.recipe.zero_grad == "start"
    assert controls.precision == "fp32"
    assert controls.device.threads == 1


def test_spans_and_counts_hold_over_several_micro_batches(tmp_path: Path) -> None:
    directory = script(micro_batches=2).measure(tmp_path, "blocks.0..1+blocks.2..3").directory
    (span,) = (s for s in read_records(directory).of(MemorySample) if s.placement != "none")
    assert [(effect.first_passes, effect.replays) for effect in span.effects] == [(4, 4), (4, 4)]
    assert outcomes(directory) == {}


def test_gradients_that_outlive_the_step_do_not_count_as_retained(tmp_path: Path) -> None:
    retained = {
        first: read_records(script(zero_grad_first=first).measure(tmp_path, "none").directory).of(MemorySample)[0]
        for first in (True, False)
    }
    assert retained[True].retained_bytes == retained[False].retained_bytes
    assert retained[True].persistent_bytes > retained[False].persistent_bytes


def test_a_placement_that_fails_is_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    study = script(fault="raise").measure(tmp_path, EACH, "blocks.2..3:each")
    assert outcomes(study.directory) == {EACH: "error"}
    assert {t.placement: t.outcome for t in study.frontier.trials}["blocks.2..3:each"] == "ok"


class Doubling(torch.nn.Module):
    """Replays another input than the first pass had; with `for_good`, every later pass has it too."""

    def __init__(self, block: torch.nn.Module, for_good: bool) -> None:
        super().__init__()
        self.block, self.for_good = block, for_good
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = 2.0 if in_replay() else self.factor
        if self.for_good:
            self.factor = factor
        result: torch.Tensor = self.block(x * factor)
        return result


def doubling(for_good: bool) -> Script:
    own = script()
    own.model.blocks[1] = Doubling(own.model.blocks[1], for_good)  # type: ignore[index,operator]
    return own


def test_a_placement_that_trains_otherwise_is_invalid_and_the_others_go_on(tmp_path: Path) -> None:
    study = doubling(for_good=False).measure(tmp_path, "blocks.1", "blocks.2..3:each")
    assert outcomes(study.directory) == {"blocks.1": "invalid"}
    assert {t.placement: t.outcome for t in study.frontier.trials}["blocks.2..3:each"] == "ok"


def test_a_placement_that_changes_the_step_for_good_ends_the_run_and_another_run_goes_on(tmp_path: Path) -> None:
    with pytest.raises(FreshProcessError, match=r"the plain step is not what it was after blocks\.1 trained otherwise"):
        doubling(for_good=True).measure(tmp_path, "blocks.1", "blocks.2..3:each")
    study = doubling(for_good=True).measure(tmp_path, "blocks.1", "blocks.2..3:each")
    assert outcomes(study.directory) == {"blocks.1": "invalid"}
    assert {t.placement: t.outcome for t in study.frontier.trials}["blocks.2..3:each"] == "ok"


def test_a_step_without_a_loss_has_none_recorded(tmp_path: Path) -> None:
    own = script()
    once = own.step
    own.step = lambda: once() and None
    assert set(losses(own.measure(tmp_path).directory).values()) == {(None, None)}


def test_losses_start_from_the_same_state_for_every_placement(tmp_path: Path) -> None:
    found = losses(script().measure(tmp_path).directory)
    assert found[EACH] == found["none"]
    assert found["none"][0] != found["none"][1]


def test_a_batch_that_is_not_given_has_no_digest(tmp_path: Path) -> None:
    own = script()
    without = read_records(own.measure(tmp_path, "none").directory).of(MemorySample)[0]
    given = read_records(own.measure(tmp_path / "given", "none", batch=own.batch).directory).of(MemorySample)[0]
    assert without.batch_digest == BATCH_NOT_GIVEN
    assert len(given.batch_digest) == 16
    assert given.persistent_bytes - without.persistent_bytes == own.batch.nbytes


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ("no backward", {}, "it ran no backward"),
        ("two steps", {}, "took 2 steps in one call"),
        ("returns", {}, "step: it returned a tuple; return the loss as one number, or None"),
        ("eval", {}, r"in eval mode; call model\.train"),
        ("", {"precision": "fp8"}, "'fp8' is not one of fp32"),
        ("", {"controls": {"list": [1]}}, r"controls\.list: expected a text"),
        ("", {"protocol": {"executions": 2}}, r"measure\(\) is one process"),
        ("", {"protocol": {"round_max": 2}}, r"protocol\.round_max: no such option"),
    ],
)
def test_what_cannot_be_measured_is_told_before_anything_is(
    tmp_path: Path, change: str, options: dict[str, Any], message: str
) -> None:
    own = script()
    once, model = own.step, own.model
    if change == "no backward":
        own.step = lambda: model(own.batch).mean()
    elif change == "two steps":
        own.step = lambda: [once(), once()][0]
    elif change == "returns":
        own.step = lambda: (once(), "text")
    elif change == "eval":
        model.eval()
    with pytest.raises(SpecError, match=message):
        own.measure(tmp_path, "none", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_checkpoints_itself_is_refused(tmp_path: Path) -> None:
    own = script()
    own.model.gradient_checkpointing = True  # type: ignore[assignment]
    with pytest.raises(UnsupportedPlacementError, match="gradient checkpointing of its own"):
        own.measure(tmp_path)


def test_importing_bench_loads_no_torch_and_measure_is_room_and_function() -> None:
    code = """
import sys, bench
assert "torch" not in sys.modules
from bench import measure
from bench.measure import time_steps
import bench.own
try:
    measure()
except TypeError as error:
    assert "missing 2 required positional arguments: 'step' and 'model'" in str(error), error
"""
    subprocess.run([sys.executable, "-c", code], check=True)
