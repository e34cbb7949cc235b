"""The figures of a comparison: what stands where, and that nothing is cut off or hidden."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.compare import Comparison, compare
from bench.report.compare_data import compare_data
from bench.report.compare_plot import VERDICT_COLOURS, draw_frontiers, draw_ratios, study_look, write_comparison_plots
from bench.spec import ModelSpec
from tests.compare.studies import THREE, controls_with, failed, longer_sequences, measured, published

COSTLY = {"none": (1.0, 1000), "blocks.0": (1.2, 600), "blocks.0..1:each": (1.45, 450)}
OTHER_MODEL = controls_with(model=ModelSpec(name="other", target="models.other"))
CASES = {
    "two": lambda: compare([measured(seed=1), measured(COSTLY, seed=2)], "two"),
    "four": lambda: compare(
        [
            measured(seed=1),
            measured(COSTLY, seed=2),
            measured(seed=3, controls=longer_sequences(512)),
            published(seed=4),
        ],
        "four",
    ),
    "nine": lambda: compare([measured(seed=seed) for seed in range(9)], "nine"),
    "one failed": lambda: compare([measured(seed=1), failed()], "one failed"),
    "all failed": lambda: compare([failed(), failed()], "all failed"),
    "one point": lambda: compare([measured({"none": (1.0, 1000)}), measured({"none": (1.0, 1000)}, seed=1)], "one"),
}


def two() -> Comparison:
    return CASES["two"]()


def test_marks_are_the_points_of_each_study_on_both_scales() -> None:
    relative, absolute = compare_data(two()).fronts
    assert [front.label for front in relative.fronts] == ["A", "B"]
    assert [round(dot.x, 3) for dot in relative.fronts[0].dots] == [0.5, 0.7, 1.0]
    assert [round(dot.x) for dot in absolute.fronts[0].dots] == [500, 700, 1000]
    assert absolute.x_label == "Peak allocated memory (MiB)"
    assert absolute.y_label == "Step time (ms)"
    assert [dot.is_knee for dot in relative.fronts[0].dots] == [False, True, False]


def test_a_course_is_the_ratio_in_each_stretch_of_memory() -> None:
    relative = compare_data(two()).courses[0]
    bands = relative.courses[0].bands
    assert [(band.low, band.high) for band in bands[:-1]] == [(0.45, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 1.0)]
    assert [band.verdict for band in bands] == ["only candidate fits", "slower", "faster", "slower", "same"]
    assert bands[0].ratio is None
    assert bands[1].ratio == pytest.approx(1.45 / 1.3, rel=0.02)
    assert bands[1].ratio_low is not None
    assert bands[1].ratio_low < bands[1].ratio


def test_budgets_beyond_all_marks_are_not_drawn() -> None:
    relative = compare_data(two()).fronts[0]
    assert relative.budgets == (0.6, 0.8)


def test_another_job_is_said_in_the_title() -> None:
    comparison = compare([measured(seed=1), measured(seed=2, controls=longer_sequences(512))], "t")
    titles = [panel.title for panel in compare_data(comparison).fronts]
    assert titles == ["Relative: each to its own none", "Absolute (not like for like: B)"]


def test_every_verdict_has_a_colour() -> None:
    words = {"faster", "slower", "same", "unclear", "only baseline fits", "only candidate fits", "neither fits"}
    assert set(VERDICT_COLOURS) == words


def test_another_model_is_left_out_of_the_absolute_figures_and_this_is_said() -> None:
    data = compare_data(compare([measured(seed=1), measured(seed=2, controls=OTHER_MODEL)], "t"))
    assert [panel.title for panel in data.fronts] == ["Relative: each to its own none"]
    assert [panel.is_relative for panel in data.courses] == [True]
    assert "Absolute: not drawn for B, which is of another model than A" in data.sentences
    assert not any(sentence.startswith("Absolute: B") for sentence in data.sentences)


def test_every_front_has_its_letter_at_its_line() -> None:
    for axes in draw_frontiers(compare_data(two())).figure.axes[1:]:
        assert sorted(text.get_text() for text in axes.texts) == ["A", "B"]


def test_neighbouring_studies_differ_in_colour_and_shape() -> None:
    looks = [study_look(index) for index in range(8)]
    assert len({(look.colour, look.marker) for look in looks}) == len({look.marker for look in looks}) == 8


@pytest.mark.parametrize("case", CASES)
def test_every_text_lies_on_the_page(case: str) -> None:
    data = compare_data(CASES[case]())
    figures = [draw_frontiers(data), *([draw_ratios(data)] if data.courses else [])]
    for figure in figures:
        width, height = figure.get_size_inches() * figure.dpi
        for box in _boxes(figure):
            assert -1 <= box.x0 < box.x1 <= width + 1
            assert -1 <= box.y0 < box.y1 <= height + 1


@pytest.mark.parametrize("case", ["two", "four", "one failed"])
def test_lines_of_text_do_not_lie_on_each_other(case: str) -> None:
    data = compare_data(CASES[case]())
    for figure in (draw_frontiers(data), draw_ratios(data)):
        page = next(axes for axes in figure.axes if axes.get_label() == "page")
        boxes = _boxes(figure, page.texts)
        for index, box in enumerate(boxes):
            assert not any(_overlap(box, other) for other in boxes[:index])


def test_nothing_measured_is_said_and_has_no_second_figure(tmp_path: Path) -> None:
    comparison = CASES["all failed"]()
    assert compare_data(comparison).headline == "No placement was measured in any of the studies."
    assert [path.name for path in write_comparison_plots(tmp_path, comparison)] == ["frontiers.png", "frontiers.svg"]


def test_files_are_written_the_same_way_every_time(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_comparison_plots(tmp_path / "a", two())}
    second = {path.name: path.read_bytes() for path in write_comparison_plots(tmp_path / "b", two())}
    assert set(first) == {"frontiers.png", "frontiers.svg", "ratios.png", "ratios.svg"}
    assert first == second
    xml.etree.ElementTree.fromstring(first["frontiers.svg"])


def test_intervals_do_not_dwarf_the_marks() -> None:
    wide = compare([measured(seed=1), measured(THREE, seed=2, noise=0.5, rounds=3)], "wide")
    panel = compare_data(wide).fronts[0]
    ys = [dot.y for front in panel.fronts for dot in front.dots]
    assert panel.y_limits[1] - panel.y_limits[0] < 4 * (max(ys) - min(ys))


def _boxes(figure: Figure, texts: list[Text] | None = None):  # type: ignore[no-untyped-def]
    """Extents of `texts`, by default of all that is drawn: numbers of ticks beyond the ends of an axis are not."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    all_axes = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    ticks = [(axis, tick) for axis in all_axes for tick in axis.get_major_ticks()]
    numbers = {id(label) for _, tick in ticks for label in (tick.label1, tick.label2)}
    shown = {
        id(tick.label1)
        for axis, tick in ticks
        if axis.axes.axison and min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = texts if texts is not None else [t for t in figure.findobj(Text) if id(t) not in numbers or id(t) in shown]
    return [
        text.get_window_extent(renderer)
        for text in found
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip()
    ]


def _overlap(first, second) -> bool:  # type: ignore[no-untyped-def]
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width > 1 and height > 2
