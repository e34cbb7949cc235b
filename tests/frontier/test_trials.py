"""Records to trials: what is scored, what is not, and relative to what."""

from __future__ import annotations

import math

import pytest

from bench.frontier import PENDING, Trial, measured_reference, summarize_trials
from bench.records import Records
from bench.spec import OUTCOMES
from tests.builders import RoundTime, join_records, make_records, make_study

NO_NUMBERS = {
    *("outcome", "reason", "placement", "id", "generators", "rounds", "executions", "on_frontier"),
    *("audit", "audit_kinds", "audit_note"),
}


def trial_of(placement: str, records: Records) -> Trial:
    trials = summarize_trials(make_study(("none", "a")), records)
    return next(trial for trial in trials if trial.placement == placement)


def has_no_metric(trial: Trial) -> bool:
    metrics = {name: value for name, value in vars(trial).items() if name not in NO_NUMBERS}
    return set(metrics.values()) == {None} and trial.rounds == trial.executions == 0


def test_there_is_one_trial_a_placement_in_the_order_of_the_study() -> None:
    study = make_study(("b", "none", "a"))
    trials = summarize_trials(study, make_records({"none": [100.0]}, {"none": 8}))
    assert [trial.placement for trial in trials] == ["b", "none", "a"]
    assert [trial.id for trial in trials] == [entry.id for entry in study.placements]


def test_a_measured_placement_is_ok_and_carries_its_numbers() -> None:
    records = make_records({"none": [100.0, 200.0, 300.0], "a": [(110.0, 112.0), 230.0, 360.0]}, {"none": 80, "a": 40})
    trial = trial_of("a", records)
    assert (trial.outcome, trial.rounds, trial.executions) == ("ok", 3, 1)
    assert trial.step_time_ms == 171.0  # median of 110, 112, 230, 360
    # Walsh averages of the logs: the middle two are those of 1.15 and of 1.11 with 1.2.
    assert trial.time_ratio == pytest.approx((1.15 * (1.11 * 1.2) ** 0.5) ** 0.5)
    assert trial.time_ratio_interval is not None
    assert (trial.peak_allocated_bytes, trial.persistent_bytes, trial.retained_bytes) == (40, 20, 10)
    assert (trial.step_flops, trial.replay_flops, trial.replay_ops) == (1000, 300, 30)
    assert trial.peak_reserved_bytes is None


def test_the_reference_has_the_ratio_one_without_width() -> None:
    trial = trial_of("none", make_records({"none": [100.0, 120.0, 90.0]}, {"none": 80}))
    assert trial.time_ratio == 1.0
    assert trial.time_ratio_interval is not None
    assert (trial.time_ratio_interval.low, trial.time_ratio_interval.high) == (1.0, 1.0)


def test_rounds_are_pooled_over_executions() -> None:
    first = make_records({"none": [100.0], "a": [110.0]}, {"none": 80, "a": 40}, execution=0)
    second = make_records({"none": [200.0], "a": [240.0]}, {"none": 80, "a": 40}, execution=1)
    trial = trial_of("a", join_records(first, second))
    assert (trial.rounds, trial.executions) == (2, 2)
    assert trial.time_ratio == pytest.approx(math.sqrt(1.1 * 1.2))


def test_the_highest_of_differing_peaks_counts_with_all_numbers_of_its_pass() -> None:
    low = make_records({"none": [100.0], "a": [110.0]}, {"none": 80, "a": 40}, execution=0)
    high = make_records({"none": [100.0], "a": [110.0]}, {"none": 80, "a": 44}, execution=1)
    trial = trial_of("a", join_records(high, low))
    assert (trial.peak_allocated_bytes, trial.persistent_bytes, trial.retained_bytes) == (44, 22, 11)


def test_a_failed_placement_carries_no_number_even_if_it_has_samples() -> None:
    records = make_records(
        {"none": [100.0] * 3, "a": [110.0] * 3}, {"none": 80, "a": 40}, {"a": ("crashed", "signal 11")}
    )
    trial = trial_of("a", records)
    assert (trial.outcome, trial.reason) == ("crashed", "signal 11")
    assert has_no_metric(trial)


def test_the_last_outcome_wins() -> None:
    records = join_records(
        make_records(outcomes={"a": ("crashed", "signal 9")}), make_records(outcomes={"a": ("oom", "12 GiB")})
    )
    assert trial_of("a", records).outcome == "oom"


@pytest.mark.parametrize(
    ("times", "peaks", "reason"),
    [
        ({}, {}, "not measured yet"),
        ({"a": [110.0]}, {}, "no memory sample yet"),
        ({}, {"a": 40}, "no time sample yet"),
        ({"a": [None, 110.0]}, {"a": 40}, "no time sample in a round with the reference yet"),
    ],
)
def test_an_unfinished_placement_is_pending_and_says_what_is_missing(
    times: dict[str, list[RoundTime]], peaks: dict[str, int], reason: str
) -> None:
    trial = trial_of("a", make_records({"none": [100.0], **times}, {"none": 80, **peaks}))
    assert (trial.outcome, trial.reason) == (PENDING, reason)
    assert has_no_metric(trial)


def test_pending_is_no_outcome_that_a_record_can_have() -> None:
    assert PENDING not in OUTCOMES


def test_none_is_the_reference_even_where_it_is_slower() -> None:
    records = make_records({"none": [100.0], "a": [90.0]}, {"none": 80, "a": 40})
    assert measured_reference(make_study(("none", "a")), records) == "none"


def test_the_reference_that_a_study_asks_for_comes_first() -> None:
    records = make_records({"none": [100.0], "a": [110.0]}, {"none": 80, "a": 40})
    assert measured_reference(make_study(("none", "a"), reference="a"), records) == "a"


def test_without_none_the_fastest_measured_placement_is_the_reference() -> None:
    records = make_records({"a": [120.0], "b": [110.0]}, {"a": 40, "b": 50}, {"none": ("oom", "12 GiB")})
    assert measured_reference(make_study(("none", "a", "b")), records) == "b"


def test_a_fast_placement_added_later_does_not_unpair_the_others() -> None:
    records = join_records(
        make_records({"a": [120.0], "b": [130.0]}, {"a": 40, "b": 30}, {"none": ("oom", "12 GiB")}),
        make_records({"a": [120.0], "c": [100.0]}, {"c": 50}, process="extension", first_round=3),
    )
    study = make_study(("none", "a", "b", "c"))
    assert measured_reference(study, records) == "a"
    assert [trial.outcome for trial in summarize_trials(study, records)] == ["oom", "ok", "ok", "ok"]


def test_nothing_measured_has_no_reference() -> None:
    assert measured_reference(make_study(), make_records()) is None
