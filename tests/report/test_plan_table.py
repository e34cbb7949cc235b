"""Expected beside measured, and what the `plan` verb says."""

from __future__ import annotations

import dataclasses

from bench.frontier.trials import replay_error
from bench.frontier.types import Frontier, Trial
from bench.records import PlanRequest, Plans
from bench.records.plan import COUNTED, MEASURED, ROOFLINE
from bench.report.plan_answer import floor_line, plan_lines, plans_table, source_line
from bench.report.plan_table import accuracy, render_expected
from bench.report.quantities import percent_text
from bench.report.terminal import plain_text
from tests.records.test_plans import plan_of
from tests.report.examples import MIB, PERSISTENT, frontier_of, ok

ROWS = (
    plan_of("h.0..5:each", 2800 * MIB, label="planned (2,900.0 MiB)", replay_ms=500.0, bound_ms=450.0),
    plan_of("h.0..11:each", 2100 * MIB, label="planned (floor)", replay_ms=1000.0, bound_ms=1000.0),
    plan_of("h.0..11:every.2", 2600 * MIB, label="every-2", peer="every-2", is_installable=True),
)
PLANS = Plans(
    request=PlanRequest(count=2),
    rows=ROWS,
    persistent_bytes=PERSISTENT,
    floor_bytes=2100 * MIB,
    plain_bytes=3236 * MIB,
    step_ms=4930.0,
    cost_source=MEASURED,
)


def trial(placement: str, peak: int, expected: int, replay_ms: float, expected_ms: float) -> Trial:
    return dataclasses.replace(
        ok(placement, peak, 1.1),
        expected_peak_bytes=expected * MIB,
        expected_peak_error_share=(expected - peak) / (peak - PERSISTENT / MIB),
        replay_ms=replay_ms,
        expected_replay_ms=expected_ms,
        expected_replay_error_share=replay_error(expected_ms, replay_ms),
    )


MEASURED_TRIALS = (
    trial("h.0..5:each", 2800, 2800, 400.0, 500.0),
    trial("h.0..11:each", 2000, 2100, 1100.0, 1000.0),
    trial("h.0..11:every.2", 2600, 2600, 700.0, 800.0),
)


def study() -> Frontier:
    return frontier_of(ok("none", 3236, 1.0, "none", width=0), *MEASURED_TRIALS)


def rendered(frontier: Frontier, plans: Plans = PLANS) -> str:
    table = render_expected(frontier, plans)
    assert table is not None
    return plain_text(table)


def row_of(text: str, label: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(label)).removeprefix(label).split()


def test_each_plan_stands_beside_what_was_measured_by_peak_from_the_highest() -> None:
    text = rendered(study())
    assert row_of(text, "h.0..5:each") == ["2800", "2800", "exact", "0.500", "0.400", "+25", "%", "1"]
    assert row_of(text, "h.0..11:each") == ["2100", "2000", "+17.4", "%", "1.000", "1.100", "-9.1", "%", "1"]
    assert text.index("h.0..5:each") < text.index("h.0..11:each")


def test_peers_have_a_table_of_their_own() -> None:
    assert "every.2" not in rendered(study())


def test_a_study_without_plans_has_no_such_table() -> None:
    assert render_expected(study(), Plans()) is None
    assert render_expected(frontier_of(ok("none", 3236, 1.0, "none", width=0)), PLANS) is None


def test_accuracy_is_the_worst_peak_and_the_median_time() -> None:
    assert accuracy(MEASURED_TRIALS) == [
        "expected peaks: the largest error of 3 is +17.4 % of what can move",
        "expected replay times: the median error of 3 is 14 %",
    ]


def test_a_placement_that_was_no_slower_is_counted_beside_the_median() -> None:
    faster = trial("h.0", 2700, 2700, -3.0, 10.0)
    assert accuracy([*MEASURED_TRIALS, faster])[1] == (
        "expected replay times: the median error of 3 is 14 %; 1 more measured no slower than none"
    )


def test_nothing_measured_says_nothing_of_accuracy() -> None:
    assert accuracy([dataclasses.replace(MEASURED_TRIALS[0], expected_peak_error_share=None)])[1:] == []


def test_counted_costs_say_that_they_are_no_times() -> None:
    assert "they rank placements, and are no times" in rendered(
        study(), dataclasses.replace(PLANS, cost_source=COUNTED)
    )


def test_the_placement_stands_alone_on_its_line() -> None:
    first, peak, time = plan_lines(ROWS[0], PLANS)
    assert first == "h.0..5:each"
    assert peak == "  peak       2,800.0 MiB: 86.5 % of none's 3,236.0 MiB; 24.1 % of what can move is freed"
    assert time == (
        "  step time  +10 % over none's (4.930 s + 0.500 s); no choice within the budget is expected below +9.1 %"
    )


def test_where_the_plain_step_fits_nothing_is_replayed() -> None:
    none, peak, time = plan_lines(plan_of("none", 3236 * MIB, replay_ms=0.0), PLANS)
    assert (none, time) == ("none", "  step time  that of none")
    assert "the plain step stays within the budget" in peak


def test_counted_costs_are_given_as_a_share_and_never_in_seconds() -> None:
    *_, cost = plan_lines(ROWS[0], dataclasses.replace(PLANS, cost_source=COUNTED))
    assert cost == "  step time  +10 % in counted cost over none; no choice within the budget is expected below +9.1 %"


def test_it_says_how_costs_were_got() -> None:
    assert "timed on this device" in source_line(PLANS)
    assert "corrected by the placements that the study measured" in source_line(PLANS, is_corrected=True)
    assert "never measured" in source_line(dataclasses.replace(PLANS, cost_source=ROOFLINE))
    assert "are no times" in source_line(dataclasses.replace(PLANS, cost_source=COUNTED))


def test_the_range_of_peaks_is_told_where_it_is_known() -> None:
    assert floor_line(PLANS) == (
        "placements reach peaks from 2,100.0 MiB (62.7 % of what can move is freed) to 3,236.0 MiB (none)"
    )
    assert floor_line(Plans()) == ""


def test_a_frontier_of_plans_is_numbered() -> None:
    lines = plain_text(plans_table(ROWS[:2], PLANS)).splitlines()
    assert lines[-2].split()[:6] == ["1", "2800", "86.5", "%", "24.1", "%"]
    assert lines[-1].split() == ["2", "2100", "64.9", "%", "62.7", "%", "+20", "%", "+20", "%", "12"]


def test_a_difference_has_a_decimal_below_ten_percent() -> None:
    assert [percent_text(share) for share in (0.063, -0.12, 0.0996, None)] == ["+6.3 %", "-12 %", "+10 %", "–"]
