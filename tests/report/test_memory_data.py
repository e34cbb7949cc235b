"""What the picture of a step's memory shows: exact bytes, thinned so that no peak is lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies

from bench.report.memory_axis import axis_of
from bench.report.memory_data import FOLD_SHARE, memory_data, stacked
from bench.report.memory_marks import number_step, shorter_names
from bench.report.memory_modules import MAX_RUNS, folded, module_runs
from bench.spec.roles import GRADIENT, OPTIMIZER_STATE, PARAMETER
from bench.trace.categories import CATEGORIES, category_of
from bench.trace.log import StepLog
from tests.report.memory_logs import KIB, LogBuilder, logs, toy_log


def test_the_stack_is_the_timeline_to_the_byte_at_every_moment_shown() -> None:
    for log in (toy_log(), toy_log(replayed=True)):
        stack, timeline = memory_data(log).stack, log.timeline()
        for column, events in enumerate(stack.events):
            layers = sum(series[column] for series in stack.by_category.values())
            assert stack.floor_bytes + layers == stack.totals[column] == timeline[events]


@given(logs(), strategies.integers(1, 60))
def test_thinning_keeps_the_peak_and_shows_every_columns_highest_moment(log: StepLog, num_columns: int) -> None:
    axis = axis_of(log)
    stack = stacked(log, axis, category_of(log), num_columns=num_columns)
    timeline = log.timeline()
    peak, moment = log.peak()
    assert max(stack.totals) == peak
    assert moment in stack.events
    for state, left in enumerate(axis.states):
        column = min(int(left * (num_columns / axis.width)), num_columns - 1)
        assert stack.totals[column] >= timeline[state]
    assert list(stack.events) == sorted(stack.events)


def test_the_toys_peak_is_what_was_worked_out_by_hand() -> None:
    peak = memory_data(toy_log()).peak
    persistent = (100 + 200 + 8) * KIB
    assert peak.bytes == persistent + (40 + 2 * 240 + 60 + 60) * KIB == toy_log().peak()[0]
    assert (peak.phase, peak.module, peak.op, peak.replayed) == ("backward", "head", "cross_entropy_backward", "")
    assert peak.by_category["saved activations"] == (40 + 2 * 240 + 60) * KIB
    assert sum(peak.by_category.values()) == peak.bytes


def test_a_peak_in_a_replay_names_its_region() -> None:
    b = LogBuilder()
    b.phase("backward")
    b.enter("h.3", "replay")
    b.enter("h.3.mlp", "replay")
    b.op("addmm", "h.3.mlp", (KIB,))
    b.leave()
    b.leave()
    data = memory_data(b.log())
    assert data.peak.replayed == "h.3.mlp"
    assert [(bar.region, bar.depth) for bar in data.passes] == [("h.3", 0), ("h.3.mlp", 1)]


def test_what_stays_and_dwarfs_the_rest_is_told_and_not_drawn() -> None:
    assert memory_data(toy_log()).floor == {}
    b = LogBuilder()
    b.persistent(2000 * KIB, PARAMETER)
    b.persistent(4000 * KIB, OPTIMIZER_STATE)
    b.persistent(10 * KIB, GRADIENT)
    b.free(2)  # not there throughout
    b.phase("forward")
    b.op("addmm", "h.0", (300 * KIB,))
    data = memory_data(b.log())
    assert data.floor == {"parameters": 2000 * KIB, "optimizer state": 4000 * KIB}
    assert data.stack.floor_bytes == 6000 * KIB > FOLD_SHARE * data.peak.bytes
    assert not {"parameters", "optimizer state"} & set(data.stack.by_category)
    assert max(data.stack.totals) == data.peak.bytes == 6300 * KIB
    assert data.peak.by_category["parameters"] == 2000 * KIB


def test_blocks_older_than_the_step_and_unknown_weigh_nothing() -> None:
    stack = memory_data(toy_log()).stack
    assert stack.totals[0] == (100 + 200 + 8) * KIB


def test_categories_are_stacked_in_one_order() -> None:
    names = list(memory_data(toy_log(replayed=True)).stack.by_category)
    assert names == [category for category in CATEGORIES if category in names]
    assert "boundary tensors" in names


def test_modules_fold_at_their_numbers() -> None:
    feed_forward = "encoder.block.3.layer.1.DenseReluDense.wi"
    assert folded(feed_forward, 1) == "encoder.block.3"
    assert folded(feed_forward, 2) == "encoder.block.3.layer.1"
    assert folded("transformer.h.3.attn.c_attn", 2) == "transformer.h.3.attn"
    assert folded("transformer.wte", 1) == "transformer.wte"
    assert folded("vit.embeddings.patch_embeddings.projection", 1) == "vit.embeddings"


def test_a_name_that_does_not_fit_is_not_shortened_to_what_others_are_called_too() -> None:
    assert shorter_names("transformer.h", {"transformer.h", "transformer.wte"}) == ["transformer.h", "h"]
    assert shorter_names("encoder.block", {"encoder.block", "decoder.block"}) == ["encoder.block", "encoder"]


def test_modules_run_in_order_and_backwards_in_backward() -> None:
    log = toy_log()
    runs = module_runs(log, axis_of(log))
    assert [f"{run.group}.{run.number}".strip(".") for run in runs] == [
        "wte", "h.0.mlp", "h.0", "h.1.mlp", "h.1", "head", "head", "h.1.mlp", "h.0.mlp",
    ]  # fmt: skip
    assert all(left.right <= right.left for left, right in itertools.pairwise(runs))


def test_many_modules_are_folded_until_they_fit() -> None:
    b = LogBuilder()
    b.phase("forward")
    for block in range(30):
        for part in ("attn", "mlp"):
            b.op("op", f"h.{block}.{part}", (KIB,))
    log = b.log()
    runs = module_runs(log, axis_of(log))
    assert [run.number for run in runs] == [str(block) for block in range(30)]
    assert {run.group for run in runs} == {"h"}
    assert len(runs) <= MAX_RUNS


def test_modules_of_accumulated_micro_batches_keep_their_numbers() -> None:
    b = LogBuilder()
    for b.micro_batch in range(3):
        for phase in ("forward", "backward"):
            b.phase(phase)
            for block in range(12):
                b.op("op", f"h.{block}", (KIB,))
    log = b.log()
    runs = module_runs(log, axis_of(log))
    assert len(runs) == 72
    assert {run.group for run in runs} == {"h"}
    assert [run.phase for run in runs] == [phase for phase in range(6) for _ in range(12)]


@pytest.mark.parametrize(("width", "step"), [(0.2, 1), (0.1, 2), (0.03, 5), (0.01, 20)])
def test_numbers_are_thinned_where_they_are_narrow(width: float, step: int) -> None:
    assert number_step(width, 0.15) == step
