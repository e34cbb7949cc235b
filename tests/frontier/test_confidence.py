"""How surely a placement is on the frontier."""

from __future__ import annotations

import pytest

from bench.frontier import Frontier, build_frontier
from bench.records import Records
from tests.builders import join_records, make_records, make_study


def confidences(records: Records, placements: tuple[str, ...] = ("none", "a", "b")) -> dict[str, float | None]:
    frontier: Frontier = build_frontier(make_study(placements), records)
    return {trial.placement: trial.frontier_confidence for trial in frontier.trials}


def test_clear_differences_are_certain() -> None:
    records = make_records(
        {"none": [100.0] * 3, "a": [110.0, 111.0, 112.0], "b": [130.0, 131.0, 132.0]}, {"none": 80, "a": 40, "b": 60}
    )
    assert confidences(records) == {"none": 1.0, "a": 1.0, "b": 0.0}


def test_at_equal_peaks_a_coin_is_tossed_between_two_that_take_turns() -> None:
    records = make_records(
        {"none": [100.0] * 5, "a": [110.0, 112.0, 110.0, 112.0, 111.0], "b": [112.0, 110.0, 112.0, 110.0, 111.0]},
        {"none": 80, "a": 40, "b": 40},
    )
    shares = confidences(records)
    assert shares["a"] is not None
    assert shares["b"] is not None
    assert 0.4 < shares["a"] < 0.75
    assert shares["a"] + shares["b"] >= 1.0  # both stay where a draw ties


def test_equal_placements_are_both_certain() -> None:
    times = [110.0, 113.0, 111.0, 117.0]
    records = make_records({"none": [100.0] * 4, "a": times, "b": times}, {"none": 80, "a": 40, "b": 40})
    assert confidences(records) == {"none": 1.0, "a": 1.0, "b": 1.0}


def test_rounds_are_drawn_together_so_shared_noise_makes_nothing_unsure() -> None:
    # b is always 1 % slower than a, under noise of 30 % that both share and the reference does not.
    noise = [1.0, 1.3, 0.9, 1.1]
    records = make_records(
        {"none": [100.0] * 4, "a": [200 * n for n in noise], "b": [202 * n for n in noise]},
        {"none": 80, "a": 40, "b": 40},
    )
    assert confidences(records)["a"] == 1.0
    assert confidences(records)["b"] == 0.0


def test_executions_are_drawn_before_their_rounds() -> None:
    # In the first execution `a` always wins, in the second always `b`, by as much: what the next one would say is open,
    # though each execution by itself is sure.
    records = join_records(
        *(
            make_records(
                {"none": [100.0] * 9, "a": [a] * 9, "b": [210 - a] * 9},
                {"none": 80, "a": 40, "b": 40},
                execution=execution,
            )
            for execution, a in enumerate((100.0, 110.0))
        )
    )
    share = confidences(records)["a"]
    assert share is not None
    # Twice the first in a quarter of the draws, twice the second in another, one of each in the rest, where they tie.
    assert share == pytest.approx(0.75, abs=0.03)


def test_placements_measured_beside_the_reference_alone_are_judged_with_the_others() -> None:
    records = join_records(
        make_records({"none": [100.0] * 3, "a": [110.0, 111.0, 112.0]}, {"none": 80, "a": 40}),
        make_records({"none": [200.0] * 3, "b": [260.0, 262.0, 264.0]}, {"b": 60}, process="extension", first_round=3),
    )
    assert confidences(records) == {"none": 1.0, "a": 1.0, "b": 0.0}


def test_a_round_that_was_cut_short_is_not_drawn() -> None:
    records = make_records(
        {"none": [100.0] * 4, "a": [110.0, 110.0, 110.0, 900.0], "b": [120.0] * 4},
        {"none": 80, "a": 40, "b": 40},
        torn_round=3,
    )
    assert confidences(records)["a"] == 1.0


def test_a_placement_with_no_complete_round_counts_by_its_point_estimate() -> None:
    records = join_records(
        make_records({"none": [100.0] * 3, "a": [120.0] * 3}, {"none": 80, "a": 40}),
        make_records({"none": [100.0], "b": [110.0]}, {"b": 40}, process="killed", torn_round=3, first_round=3),
    )
    shares = confidences(records)
    assert shares["a"] == 0.0
    assert shares["b"] is None  # one round


@pytest.mark.parametrize("rounds", [1, 2])
def test_too_few_rounds_give_no_confidence(rounds: int) -> None:
    records = make_records({"none": [100.0] * rounds, "a": [110.0] * rounds}, {"none": 80, "a": 40})
    assert set(confidences(records).values()) == {None}


def test_a_failed_placement_has_no_confidence_and_beats_nobody() -> None:
    records = make_records(
        {"none": [100.0] * 3, "a": [120.0] * 3, "b": [90.0] * 3},
        {"none": 80, "a": 40, "b": 20},
        {"b": ("invalid", "gradients differ")},
    )
    assert confidences(records) == {"none": 1.0, "a": 1.0, "b": None}
