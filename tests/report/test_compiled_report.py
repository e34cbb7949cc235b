"""Compiled steps told: what is worked out of the records, the table, the CSV, and the series of the plot."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path

import pytest

from bench.records.compiled import (
    COMPILED_FILE,
    EAGER,
    Choice,
    Compiled,
    CompiledRequest,
    Program,
    StepSample,
    read_compiled,
    write_compiled,
)
from bench.report.compiled_data import compiled_csv, compiled_points
from bench.report.compiled_plot import draw_series
from bench.report.compiled_series import compiled_caption, with_compiled
from bench.report.compiled_table import render_compiled
from bench.report.frontier_data import frontier_data
from bench.report.terminal import plain_text
from tests.report.examples import MIB, frontier_of, ok

PERSISTENT = 1000 * MIB
TARGET = 0.02
REDRAWS = "rng: the model: its replay draws from torch's generator once more"


def program(name: str, peak_mib: int, audit: str | None = "valid", reason: str = "") -> Program:
    return Program(
        name=name,
        outcome="ok",
        compile_s=None if name == EAGER else 9.0,
        peak_allocated_bytes=peak_mib * MIB,
        persistent_bytes=PERSISTENT,
        audit=None if name == EAGER else audit,
        audit_reason=reason,
    )


def choice(solver: str, budget: float, program: str | None, saved_mib: int = 0, **changed: object) -> Choice:
    made = Choice(
        solver=solver,
        budget=budget,
        program=program,
        graphs=1,
        estimated_saved_bytes=saved_mib * MIB,
        recomputed_ops=round(100 * (1 - budget)),
    )
    return dataclasses.replace(made, **changed)  # type: ignore[arg-type]


def rounds(number: int, **times_ms: float) -> tuple[StepSample, ...]:
    return tuple(
        StepSample(program=name, round=index, position=position, step_times_ms=(ms * (1 + index / 100),))
        for index in range(number)
        for position, (name, ms) in enumerate(times_ms.items())
    )


COMPILED = Compiled(
    request=CompiledRequest(solvers=("dp", "greedy"), budgets=(1.0, 0.6, 0.2)),
    backend="aot_eager_decomp_partition",
    choices=(
        choice("dp", 1.0, "whole", 1000),
        choice("dp", 0.6, "dp-some", 600),
        choice("dp", 0.2, "redraws", 200),
        choice("greedy", 1.0, "whole", 1000),
        choice("greedy", 0.6, "worse", 600),
        choice("greedy", 0.2, None, outcome="error", reason="RuntimeError: scipy solving failed", saved_mib=0),
    ),
    programs=(
        program(EAGER, 2100),
        program("whole", 2000),
        program("dp-some", 1800),
        program("redraws", 1500, "invalid", REDRAWS),
        program("worse", 2050),
    ),
    samples=rounds(8, eager=100.0, whole=105.0, worse=130.0, redraws=90.0) + rounds(8, **{"dp-some": 120.0}),
    stopped="tight",
)
POINTS = compiled_points(COMPILED, TARGET)


def test_times_are_paired_with_the_plain_step_of_the_same_round() -> None:
    ratios = {(p.solver, p.budget): p.time_ratio for p in POINTS}
    assert ratios == {
        ("dp", 1.0): pytest.approx(1.05),
        ("dp", 0.6): pytest.approx(1.2),
        ("dp", 0.2): pytest.approx(0.9),
        ("greedy", 1.0): pytest.approx(1.05),
        ("greedy", 0.6): pytest.approx(1.3),
        ("greedy", 0.2): None,
    }
    assert [p.verdict for p in POINTS] == ["slower", "slower", "faster", "slower", "slower", None]
    assert [p.rounds for p in POINTS] == [8, 8, 8, 8, 8, 0]


def test_a_round_without_the_plain_step_gives_no_ratio() -> None:
    torn = dataclasses.replace(COMPILED, samples=(*COMPILED.samples, *rounds(9, whole=500.0)[8:]))
    assert compiled_points(torn, TARGET)[0].rounds == 8


def test_invalid_programs_and_failures_are_off_their_solvers_frontier_and_dominated_ones_too() -> None:
    assert [(p.solver, p.budget) for p in POINTS if p.on_frontier] == [("dp", 1.0), ("dp", 0.6), ("greedy", 1.0)]
    assert [p.outcome for p in POINTS] == ["ok", "ok", "invalid", "ok", "ok", "error"]


def test_what_torch_says_of_the_peak_is_held_against_the_measured_one() -> None:
    # At 0.6 torch keeps 400 MiB less than at 1, so the peak should be 1600; it is 1800, of which 800 can move.
    assert [p.implied_peak_bytes for p in POINTS[:3]] == [2000 * MIB, 1600 * MIB, 1200 * MIB]
    assert [p.implied_error_share for p in POINTS[:3]] == pytest.approx([0.0, -200 / 800, -300 / 500])


def test_without_times_there_are_peaks_and_no_frontier() -> None:
    points = compiled_points(dataclasses.replace(COMPILED, samples=()), TARGET)
    assert points[0].peak_allocated_bytes == 2000 * MIB
    assert [p for p in points if p.on_frontier or p.time_ratio is not None] == []


def test_the_csv_has_a_row_a_point_and_empty_cells_for_what_was_not_measured() -> None:
    rows = list(csv.DictReader(io.StringIO(compiled_csv(POINTS))))
    assert [(row["solver"], row["budget"], row["on_frontier"]) for row in rows][:2] == [
        ("dp", "1.0", "true"),
        ("dp", "0.6", "true"),
    ]
    assert (rows[-1]["peak_allocated_bytes"], rows[-1]["time_ratio"], rows[-1]["outcome"]) == ("", "", "error")
    assert float(rows[0]["time_ratio_low"]) <= 1.05 <= float(rows[0]["time_ratio_high"])


def test_the_table_joins_solvers_that_came_to_one_program_and_tells_every_fault() -> None:
    told = render_compiled(COMPILED, TARGET)
    assert told is not None
    text = plain_text(told)
    lines = text.splitlines()
    (whole,) = [line for line in lines if "dp, greedy" in line]
    assert "●" in whole
    assert "bit" in whole
    assert "greedy at 0.2: error: RuntimeError: scipy solving failed" in lines
    assert f"dp at 0.2: invalid: {REDRAWS}" in lines
    assert "times are relative to the plain step, not compiled" in text
    assert "2100 MiB" in text.replace("\n", " ")
    assert "programs below budget 1 (3): median error 42.9 %, largest 60.0 %" in " ".join(lines)
    assert all(len(line) <= 120 for line in lines)


def test_nothing_is_told_where_nothing_was_asked_for_and_notes_where_it_failed() -> None:
    assert render_compiled(Compiled(), TARGET) is None
    told = render_compiled(Compiled(notes=("nothing was compiled: no model",)), TARGET)
    assert told is not None
    assert plain_text(told) == "note: nothing was compiled: no model\n"


FRONTIER = frontier_of(ok("none", 2100, 1.0, width=0), ok("h.0..5:each", 1700, 1.2))


def test_series_stand_in_the_units_of_each_panel_with_invalid_ones_marked() -> None:
    data, beside = with_compiled(frontier_data(FRONTIER), FRONTIER, POINTS)
    relative, absolute = beside
    assert [series.label for series in relative] == ["compiled, dp", "compiled, greedy"]
    assert [(round(m.x, 3), round(m.y, 3), m.is_valid) for m in relative[0].marks] == [
        (round(2000 / 2100, 3), 1.05, True),
        (round(1800 / 2100, 3), 1.2, True),
        (round(1500 / 2100, 3), 0.9, False),
    ]
    assert absolute[0].marks[0].x == pytest.approx(2000)
    assert list(relative[0].steps[0]) == pytest.approx([1800 / 2100, 1.2])
    for panel, series in zip(data.panels, beside, strict=True):
        (low, high), (slow, fast) = panel.x_limits, panel.y_limits
        assert all(low <= m.x <= high and slow <= m.y <= fast for one in series for m in one.marks)


def test_points_so_far_off_that_placements_would_not_be_seen_are_counted_beyond_the_axes() -> None:
    slow = [dataclasses.replace(p, time_ratio=40.0) if p.budget == 0.2 and p.solver == "dp" else p for p in POINTS]
    data, beside = with_compiled(frontier_data(FRONTIER), FRONTIER, slow)
    assert [series.label for series in beside[0]] == ["compiled, dp (1 beyond the axes)", "compiled, greedy"]
    assert data.panels[0].y_limits[1] < 2


def test_a_study_whose_reference_is_not_none_has_no_series() -> None:
    frontier = dataclasses.replace(FRONTIER, reference="h.0..5:each")
    plain = frontier_data(frontier)
    data, beside = with_compiled(plain, frontier, POINTS)
    assert data == plain
    assert not any(beside)
    assert compiled_caption(COMPILED, beside) == ""


def test_series_are_drawn_hollow_behind_the_study_and_leave_its_axes_alone() -> None:
    from matplotlib.figure import Figure

    _, beside = with_compiled(frontier_data(FRONTIER), FRONTIER, POINTS)
    axes = Figure().add_subplot()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 2)
    draw_series(axes, beside[0])
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 1), (0, 2))
    marks = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
    assert len(marks) == 5
    assert {line.get_markerfacecolor() for line in marks} == {"none"}
    assert len({line.get_markeredgecolor() for line in marks}) == 2, "an invalid one has the colour of failures"
    assert all(line.get_zorder() < 2 for line in axes.lines)


def test_the_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_compiled(tmp_path, COMPILED)
    assert read_compiled(tmp_path) == COMPILED
    (tmp_path / COMPILED_FILE).write_text('{"schema_version": 99}')
    assert read_compiled(tmp_path).problem == (
        "compiled.json cannot be read (schema_version 99, expected 1): the next sweep that asks for it makes it anew"
    )
    assert read_compiled(tmp_path / "elsewhere") == Compiled()
