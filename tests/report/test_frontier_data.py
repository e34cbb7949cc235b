"""The frontier plot's data step: marks, step line, memory lines, key, failures, caption."""

from __future__ import annotations

import dataclasses

import pytest

from bench.frontier.types import Interval
from bench.report.caption import caption
from bench.report.frontier_data import Panel, frontier_data, step_corners
from tests.report.examples import (
    MIB,
    failed,
    frontier_of,
    gpt2_eight,
    gpt2_sixteen,
    none_does_not_fit,
    ok,
    sixty,
    study_of,
)


def panel(frontier_panels: tuple[Panel, ...], is_relative: bool) -> Panel:
    return next(p for p in frontier_panels if p.is_relative == is_relative)


def test_step_line_goes_right_at_a_points_own_time_then_down() -> None:
    assert step_corners([(3, 1), (1, 4), (2, 2)]) == ((1, 4), (2, 4), (2, 2), (3, 2), (3, 1))
    assert step_corners([(3, 1)]) == ((3, 1),)
    assert step_corners([]) == ()


def test_relative_panel_is_in_shares_of_the_reference() -> None:
    data = frontier_data(frontier_of(ok("none", 3000, 1.0, width=0), ok("h.0..5:each", 2400, 1.2, width=0.05)))
    marks = {mark.label: mark for mark in panel(data.panels, True).marks}
    mark = marks["h.0..5:each"]
    assert (mark.x, mark.y) == (0.8, 1.2)
    assert (mark.y_low, mark.y_high) == pytest.approx((1.15, 1.25))
    assert (marks["none"].x, marks["none"].y) == (1.0, 1.0)
    assert marks["none"].y_low == marks["none"].y_high == 1.0


def test_the_memory_axis_says_where_it_is_relative_to_a_forecast() -> None:
    frontier = none_does_not_fit()
    data = frontier_data(frontier)
    relative = panel(data.panels, True)
    assert (relative.title, relative.x_label, relative.y_label) == (
        "Relative",
        "Peak allocated memory / forecast of none",
        "Step time / h.0..5:each's",
    )
    assert relative.marks[0].x == 0.6
    assert data.share_header == "of forecast"
    assert "none does not fit: shares of the peak are of its forecast." in caption(study_of(frontier), frontier)


def test_absolute_panel_is_in_units_and_scales_the_interval_of_the_ratio() -> None:
    data = frontier_data(frontier_of(ok("none", 3000, 1.0, width=0), ok("h.0..5:each", 2400, 1.2, width=0.06)))
    absolute = panel(data.panels, False)
    assert (absolute.x_label, absolute.y_label) == ("Peak allocated memory (MiB)", "Step time (s)")
    mark = next(mark for mark in absolute.marks if mark.label == "h.0..5:each")
    assert (mark.x, mark.y, mark.y_low, mark.y_high) == pytest.approx((2400, 5.916, 5.916 * 0.95, 5.916 * 1.05))


def test_frontier_marks_are_numbered_from_the_highest_peak() -> None:
    data = frontier_data(gpt2_eight())
    assert [(entry.tag, entry.label) for entry in data.key] == [
        ("1", "none"),
        ("2", "h.0..11:every.2"),
        ("3", "h.0..11.mlp:each"),
        ("4", "h.0..10:each"),
        ("5", "h.0..11:each:keep.attention"),
        ("6", "h.0..11:each"),
    ]
    assert [entry.label for entry in data.key if entry.is_knee] == ["h.0..11.mlp:each"]
    assert data.key[2].ratio == "×1.12 ± 0.02"
    assert (data.key[2].peak, data.key[2].share) == ("2516 MiB", "78 %")
    dominated = [mark for mark in panel(data.panels, True).marks if not mark.on_frontier]
    assert {mark.tag for mark in dominated} == {""}


def test_step_line_runs_through_the_frontier_alone() -> None:
    absolute = panel(frontier_data(gpt2_eight()).panels, False)
    assert len(absolute.steps) == 2 * 6 - 1
    assert [x for x, _ in absolute.steps[::2]] == pytest.approx([2390, 2402, 2418, 2516, 2744, 3236])


def test_persistent_floor_is_drawn_and_far_capacity_becomes_a_note() -> None:
    lines = {line.label: line for line in panel(frontier_data(gpt2_eight()).panels, False).lines}
    floor, capacity = lines["persistent 1424 MiB"], lines["capacity 15.00 GiB"]
    assert floor.is_inside
    assert floor.x == 1424
    assert not capacity.is_inside
    assert not capacity.is_below


def test_near_capacity_is_drawn_in_both_panels() -> None:
    frontier = gpt2_eight(capacity_bytes=4000 * MIB)
    relative, absolute = frontier_data(frontier).panels
    assert relative.lines[1].is_inside
    assert relative.lines[1].x == pytest.approx(4000 / 3236)
    assert absolute.x_limits[1] > 4000


def test_far_floor_and_unknown_capacity() -> None:
    frontier = frontier_of(ok("none", 30_000, 1.0, width=0), ok("h.0:each", 29_900, 1.1), capacity_bytes=None)
    lines = panel(frontier_data(frontier).panels, False).lines
    assert [(line.is_inside, line.is_below) for line in lines] == [(False, True)]


def test_failures_have_no_mark() -> None:
    data = frontier_data(gpt2_sixteen())
    assert [(f.label, f.outcome, f.tag) for f in data.failures] == [
        ("h.0..11:each:keep.matmul", "no-effect", ""),
        ("h.0..11:each:keep.matmul%2", "oom", ""),
    ]
    assert all(len(p.marks) == 14 for p in data.panels)


def test_a_measured_placement_that_is_not_valid_is_a_lettered_cross_off_the_frontier() -> None:
    data = frontier_data(sixty())
    crosses = [mark for mark in data.panels[0].marks if not mark.is_valid]
    assert [(mark.tag, mark.on_frontier) for mark in crosses] == [("a", False)]
    assert [f.tag for f in data.failures if f.outcome == "invalid"] == ["a"]
    assert "submodules" not in data.families


def test_families_have_one_order_in_all_plots() -> None:
    assert frontier_data(gpt2_eight()).families == (
        "none", "every block", "every k-th block", "leading blocks", "all but the last blocks", "spans", "submodules",
        "policies",
    )  # fmt: skip


def test_all_failed_and_empty_studies_have_a_headline_and_no_panel() -> None:
    all_failed = frontier_data(frontier_of(failed("none", "oom", "too big")))
    assert (all_failed.panels, all_failed.headline) == ((), "No placement was measured.")
    assert [f.label for f in all_failed.failures] == ["none"]
    assert frontier_data(frontier_of()).headline == "The study has no placement yet."


def test_without_ratios_the_absolute_panel_stands_alone() -> None:
    trial = dataclasses.replace(ok("h.0:each", 2000, 1.1), time_ratio=None, time_ratio_interval=None)
    data = frontier_data(frontier_of(trial, reference=None))
    assert [p.is_relative for p in data.panels] == [False]


def test_a_long_reference_is_named_in_the_caption_alone() -> None:
    reference = "transformer.h.0..5:each:keep.attention.matmul%2+transformer.h.6..11:each"
    frontier = frontier_of(ok(reference, 2000, 1.0, width=0), reference=reference)
    assert frontier_data(frontier).panels[0].title == "Relative to reference"
    assert reference in caption(study_of(frontier), frontier)


def test_caption_names_controls_reference_and_rounds() -> None:
    frontier = gpt2_eight()
    assert caption(study_of(frontier), frontier, "transformer.") == (
        "gpt2 on AMD EPYC 7763, fp32, micro-batch 4, sequence length 256, adamw. Reference: none. "
        "6 paired rounds in 1 execution. ± and bars: 95 % interval of the paired time ratio. "
        "Placements are shown without their common prefix “transformer.”. "
        "Absolute times are the reference's median times the paired ratio."
    )


def test_both_panels_show_the_same_frontier() -> None:
    # The second placement's median is below the reference's, as after a slow hour; its paired ratio says otherwise.
    frontier = frontier_of(ok("none", 2000, 1.0), dataclasses.replace(ok("h.0:each", 1000, 1.2), step_time_ms=10.0))
    relative, absolute = frontier_data(frontier).panels
    scale = [a.y / r.y for a, r in zip(absolute.marks, relative.marks, strict=True)]
    assert scale[0] == pytest.approx(scale[1])


def test_an_interval_that_dwarfs_the_marks_does_not_set_the_axis() -> None:
    wide = dataclasses.replace(ok("h.0:each", 1000, 1.2), time_ratio_interval=Interval(low=0.1, high=50.0))
    panel = frontier_data(frontier_of(ok("none", 2000, 1.0), wide)).panels[0]
    assert panel.y_limits[0] > 0.5
    assert panel.y_limits[1] < 2.0


def test_a_twin_is_drawn_as_the_placement_that_it_stands_for() -> None:
    original = failed("h.0..5:each", "invalid", "state: a buffer has moved", "every block")
    twin = dataclasses.replace(ok("h.0..5:each@restore", 2400, 1.2, "twin of h.0..5:each"), twin_of="h.0..5:each")
    data = frontier_data(frontier_of(ok("none", 3000, 1.0, width=0), original, twin))
    assert [mark.family for mark in data.panels[0].marks if mark.label.endswith("@restore")] == ["every block"]
    assert [entry.family for entry in data.key if entry.label.endswith("@restore")] == ["every block"]
    alone = frontier_data(frontier_of(ok("none", 3000, 1.0, width=0), twin))
    assert alone.key[-1].family == "other"
