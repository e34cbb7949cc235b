"""Memory at each moment, and what changes it."""

from __future__ import annotations

import numpy as np
import pytest

from bench.placement.types import NONE, Region
from bench.plan.moments import Change, high_water
from tests.plan.planning import Blocks, Mlp, Subject, toy


@pytest.fixture(scope="module")
def three() -> Subject:
    return toy(lambda: Blocks([Mlp(32, 128) for _ in range(3)]), 16, 32)


def test_the_highest_moment_is_the_forecasts_peak(three: Subject) -> None:
    for placement in ("none", "blocks.0", "blocks.0..1", "blocks.0..2:each", "blocks.1:keep.matmul/0"):
        line = high_water(three.forecaster.rearranged(placement), three.trials.persistent_bytes)
        assert line.max() == three.forecaster.fast(placement).peak_allocated_bytes


def test_every_placement_has_the_same_moments(three: Subject) -> None:
    count = len(three.trials.script.items)
    assert {len(three.tried(Region(units=(unit,))).line) for unit in ("blocks.0", "blocks.1.act")} == {count}


def test_nothing_placed_changes_nothing(three: Subject) -> None:
    plain = high_water(three.forecaster.rearranged(NONE), three.trials.persistent_bytes)
    assert not Change.between(three.trials.plain, plain).bytes.any()


def test_a_change_is_given_back_in_full() -> None:
    plain = np.array([5, 5, 9, 9, 3], dtype=np.int64)
    placed = np.array([5, 7, 4, 4, 3], dtype=np.int64)
    change = Change.between(plain, placed)
    assert change.line(5).tolist() == [0, 2, -5, -5, 0]
    assert [change.at(moment) for moment in range(5)] == [0, 2, -5, -5, 0]
    assert change.moments.tolist() == [0, 1, 2, 4]  # kept where it turns only


def test_a_moved_change_is_later_in_forwards_and_earlier_in_backwards() -> None:
    period = np.array([2] * 6 + [-1] * 6)
    change = Change.between(np.zeros(12, dtype=np.int64), np.array([0, -1, -1, 0, 0, 0, 0, 0, 0, 4, 4, 0]))
    moved = change.moved(period, 1)
    assert moved is not None
    assert moved.line(12).tolist() == [0, 0, 0, -1, -1, 0, 0, 0, 4, 4, 0, 0]


def test_the_changes_of_regions_that_do_not_touch_add_up(three: Subject) -> None:
    first, second = Region(units=("blocks.0.act",)), Region(units=("blocks.2.up", "blocks.2.act", "blocks.2.down"))
    line = three.trials.plain.copy()
    for region in (first, second):
        three.tried(region).change.add_to(line)
    assert line.tolist() == three.tried(first, second).line.tolist()


def test_a_change_whose_parts_would_pass_each_other_is_not_moved() -> None:
    period = np.array([0, 4, -4, 0])
    change = Change.between(np.zeros(4, dtype=np.int64), np.array([0, 1, 2, 3]))
    assert change.moved(period, 1) is None
