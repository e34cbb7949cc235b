"""Where the moments of one step, or of two, lie along a picture."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from bench.explain.passes import is_in_replay
from bench.report.memory_axis import PHASE_SHARE_MIN, aligned_axes, axis_of
from bench.trace.log import StepLog
from tests.report.memory_logs import KIB, LogBuilder, logs, toy_log


def test_an_op_takes_one_width_a_block_another_and_a_scalar_none() -> None:
    b = LogBuilder()
    (kept,) = b.op("first", "", (10**6,))
    b.op("second", "", (8, 8))
    b.free(kept)
    axis = axis_of(b.log())
    # The step begins: 1; first op: 1, its block 1; second op: 1, its scalars nothing, and a release of the block: 1.
    assert axis.ops == (1.0, 3.0)
    assert axis.states == (0.0, 3.0, 4.0, 4.0, 5.0)
    assert axis.width == 5.0


def test_phases_have_room_for_their_names_and_lie_one_after_another() -> None:
    b = LogBuilder()
    b.phase("forward")
    for _ in range(100):
        b.op("op", "", (KIB,))
    b.phase("optimizer")
    b.phase("zero_grad")
    b.phase("end")
    axis = axis_of(b.log())
    assert [span.phase for span in axis.phases] == ["forward", "optimizer", "zero_grad"]
    forward, optimizer, zero_grad = axis.phases
    unstretched = 1 + 1 + 200 + 3
    for span in (optimizer, zero_grad):
        assert span.right - span.left == pytest.approx(PHASE_SHARE_MIN * unstretched)
    assert (forward.right, optimizer.right) == (optimizer.left, zero_grad.left)


def test_an_op_without_events_stays_in_its_own_phase() -> None:
    axis, log = axis_of(toy_log()), toy_log()
    spans = {(span.phase, span.micro_batch): span for span in axis.phases}
    for op, left in zip(log.ops, axis.ops, strict=True):
        span = spans[op.phase, op.micro_batch]
        assert span.left <= left < span.right, op.name


def test_what_both_steps_do_lies_at_the_same_place() -> None:
    plain, placed = toy_log(), toy_log(replayed=True)
    plain_axis, placed_axis = aligned_axes(plain, placed)
    shared = [
        left for op, left in zip(placed.ops, placed_axis.ops, strict=True) if not is_in_replay(placed, op.region_pass)
    ]
    assert shared == list(plain_axis.ops)
    assert len(placed.ops) == len(plain.ops) + 2
    assert plain_axis.phases == placed_axis.phases
    assert plain_axis.width == placed_axis.width


def test_while_one_step_replays_the_other_waits() -> None:
    plain, placed = toy_log(), toy_log(replayed=True)
    plain_axis, placed_axis = aligned_axes(plain, placed)
    for op, left in zip(placed.ops, placed_axis.ops, strict=True):
        if is_in_replay(placed, op.region_pass):
            right = placed_axis.states[op.end]
            assert left < right
            assert not any(left < other < right for other in plain_axis.states)


def test_a_step_beside_itself_lies_as_it_does_alone() -> None:
    log = toy_log(replayed=True)
    assert aligned_axes(log, log) == [axis_of(log)] * 2


def test_a_region_that_both_replay_is_replayed_at_the_same_place() -> None:
    both = toy_log(replayed=True)
    one = LogBuilder(placement="h.1")
    one.phase("backward")
    one.enter("h.1", "replay")
    one.op("addmm", "h.1.mlp", (200 * KIB,))
    one.leave()
    both_axis, one_axis = aligned_axes(both, one.log())
    replays = [left for op, left in zip(both.ops, both_axis.ops, strict=True) if is_in_replay(both, op.region_pass)]
    assert one_axis.ops == (replays[0],)


@given(logs(), logs())
def test_states_and_ops_are_in_order_whatever_the_steps(first: StepLog, second: StepLog) -> None:
    for log, axis in zip((first, second), aligned_axes(first, second), strict=True):
        assert len(axis.states) == len(log.events) + 1
        assert len(axis.ops) == len(log.ops)
        for line in (axis.states, axis.ops):
            assert all(left <= right for left, right in itertools.pairwise([0.0, *line, axis.width]))
