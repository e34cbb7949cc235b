"""Figures for print: exactly as wide as a column or a page, letters that can be read, nothing on top of anything."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from bench.frontier.types import Frontier
from bench.report.compiled_series import HollowMark, Series
from bench.report.export import write_export
from bench.report.frontier_data import frontier_data
from bench.report.publication_data import NAMED, publication_data
from bench.report.publication_files import strip_rows
from bench.report.publication_page import WIDTHS, save_for_print
from bench.report.publication_plot import draw_for_print
from bench.spec import ChainInfo
from tests.report.examples import (
    GPT2_CHAINS,
    GPT2_XL_CHAINS,
    MIB,
    T5_CHAINS,
    failed,
    frontier_of,
    gpt2_eight,
    gpt2_sixteen,
    none_does_not_fit,
    ok,
    sixty,
    study_of,
    t5,
)

SMALLEST_LETTERS = 6.0
"""Points: what IEEE asks of letters in figures at their final size."""
LONG = "+".join(f"transformer.h.{i}:keep.attention.matmul%2@no-rng" for i in range(12))
CASES: dict[str, tuple[Frontier, tuple[ChainInfo, ...]]] = {
    "eight": (gpt2_eight(), GPT2_CHAINS),
    "sixteen": (gpt2_sixteen(), GPT2_CHAINS),
    "two chains": (t5(), T5_CHAINS),
    "sixty": (sixty(), GPT2_XL_CHAINS),
    "long name": (frontier_of(ok("none", 3236, 1.0, width=0), ok(LONG, 2400, 1.2)), GPT2_CHAINS),
    "one point": (frontier_of(ok("none", 3236, 1.0, "none", width=0)), GPT2_CHAINS),
    "none does not fit": (none_does_not_fit(), GPT2_CHAINS),
    "all failed": (frontier_of(failed("none", "oom", "too big")), GPT2_CHAINS),
    "empty": (frontier_of(), GPT2_CHAINS),
}


def figure_of(frontier: Frontier, columns: int) -> Figure:
    return draw_for_print(publication_data(frontier_data(frontier), NAMED[columns]), columns)


def tags_of(figure: Figure) -> list[Annotation]:
    return [t for axes in figure.axes for t in axes.texts if isinstance(t, Annotation)]


def shown_texts(figure: Figure) -> list[Text]:
    """Numbers of ticks beyond the ends of an axis are not shown."""
    FigureCanvasAgg(figure).draw()
    every = [
        axis for axes in figure.findobj(lambda artist: hasattr(artist, "xaxis")) for axis in (axes.xaxis, axes.yaxis)
    ]
    numbers, shown = set(), set()
    for axis in every:
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            numbers |= {id(tick.label1), id(tick.label2)}
            if axis.axes.axison and low <= tick.get_loc() <= high:
                shown |= {id(label) for label in (tick.label1, tick.label2) if label.get_visible()}
    texts = figure.findobj(Text)
    return [
        t for t in texts
        if t.get_text().strip() and t.get_visible() and (id(t) not in numbers or id(t) in shown)
    ]  # fmt: skip


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_a_figure_is_as_wide_as_its_columns_and_holds_all_of_its_letters(case: str, columns: int) -> None:
    figure = figure_of(CASES[case][0], columns)
    assert figure.get_figwidth() == {1: 3.5, 2: 7.16}[columns]
    for text in shown_texts(figure):
        box = text.get_window_extent()
        assert figure.bbox.x0 - 1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1, text.get_text()
        assert figure.bbox.y0 - 1 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1, text.get_text()
        assert text.get_fontsize() >= SMALLEST_LETTERS, text.get_text()


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_no_letters_lie_on_others(case: str, columns: int) -> None:
    texts = shown_texts(figure_of(CASES[case][0], columns))
    boxes = [(t.get_text(), Text.get_window_extent(t).shrunk(0.98, 0.7)) for t in texts]
    assert [(a, b) for (a, box), (b, other) in itertools.combinations(boxes, 2) if box.overlaps(other)] == []


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_long_frontier_names_no_more_than_fit_and_says_how_many_more_there_are(columns: int) -> None:
    frontier = frontier_of(
        ok("none", 1000, 1.0), *(ok(f"transformer.h.0..{i}", 1000 - 8 * i, 1 + i / 200) for i in range(1, 100)),
        knee="transformer.h.0..40",
    )  # fmt: skip
    figure = figure_of(frontier, columns)
    numbers = {tag.get_text() for tag in tags_of(figure)}
    assert len(numbers) == NAMED[columns]
    assert {"1", "41", "100"} <= numbers
    words = [text.get_text() for text in figure.axes[0].texts]
    assert f"and {100 - NAMED[columns]} more, between these" in words


def test_numbers_in_the_panel_the_key_the_strip_and_both_widths_are_those_of_the_whole_frontier() -> None:
    frontier, chains = CASES["sixty"]
    one, two = ({t.get_text() for t in tags_of(figure_of(frontier, columns))} for columns in (1, 2))
    assert one <= two
    data = frontier_data(frontier)
    rows = strip_rows(study_of(frontier, chains), frontier, publication_data(data, NAMED[2])).rows
    assert {row.tag for row in rows} == two
    key = {entry.tag: entry.label for entry in data.key}
    assert all(row.label == key[row.tag] for row in rows)


def test_both_scales_show_the_same_figures() -> None:
    shown = publication_data(frontier_data(gpt2_eight()), 8)
    assert shown.memory is not None
    assert shown.time is not None
    assert (shown.memory.label, shown.time.label) == ("Peak allocated memory (MiB)", "Step time (s)")
    assert shown.memory.factor == pytest.approx(3236)
    assert shown.time.factor == pytest.approx(4.93)


def test_a_memory_line_that_would_take_much_of_the_axis_is_for_the_caption() -> None:
    far, near = gpt2_eight(), gpt2_eight(capacity_bytes=3300 * MIB)
    assert [line.label for line in publication_data(frontier_data(near), 8).lines_inside] == ["capacity 3300 MiB"]
    shown = publication_data(frontier_data(far), 8)
    assert shown.panel is not None
    assert shown.lines_inside == ()
    assert [line.label for line in shown.lines_beyond] == ["persistent 1424 MiB", "capacity 15.00 GiB"]
    assert shown.panel.x_limits[0] > 0.7


def test_a_forecast_is_not_passed_for_a_measurement() -> None:
    shown = publication_data(frontier_data(none_does_not_fit()), 8)
    assert shown.panel is not None
    assert shown.panel.x_label == "Peak allocated memory / forecast of none"
    assert shown.share_header == "of forecast"


def test_what_is_not_valid_is_a_cross_that_the_legend_names_and_has_no_number() -> None:
    figure = figure_of(sixty(), 2)
    assert "not valid" in [text.get_text() for text in figure.axes[0].texts]
    assert sum(line.get_marker() == "x" for line in figure.axes[1].lines) == 1
    assert all(tag.get_text().isdigit() for tag in tags_of(figure))


def test_what_was_compiled_is_on_the_panel_and_in_the_legend() -> None:
    steps = ((0.6, 1.3), (0.8, 1.3), (0.8, 1.1))
    marks = tuple(HollowMark(x=x, y=y, is_valid=True) for x, y in (steps[0], steps[2]))
    series = (Series(label="compiled, dp", marks=marks, steps=steps),)
    shown = publication_data(frontier_data(gpt2_eight()), 8, series)
    assert shown.panel is not None
    assert shown.panel.x_limits[0] < 0.6
    figure = draw_for_print(shown, 1, series)
    assert "compiled, dp" in [text.get_text() for text in figure.axes[0].texts]
    assert "compiled, dp" in [line.get_label() for line in figure.axes[1].lines]


def test_text_stays_text_in_svg_and_truetype_in_pdf(tmp_path: Path) -> None:
    for path in save_for_print(figure_of(gpt2_eight(), 1), tmp_path, "figure"):
        content = path.read_bytes()
        if path.suffix == ".svg":
            assert b"<text" in content
            assert b"h.0..11.mlp:each" in content
            assert b"<dc:date" not in content
            assert re.search(rb'width="252(\.0)?pt"', content)
        if path.suffix == ".pdf":
            assert b"/CIDFontType2" in content
            assert b"/Type3" not in content
            assert re.search(rb"/MediaBox \[ 0 0 252 ", content)


def test_columns_of_text_stay_aligned_where_a_reader_of_svg_joins_blanks(tmp_path: Path) -> None:
    write_export(tmp_path, tmp_path, study_of(gpt2_eight()), gpt2_eight())
    for name in ("frontier-1col", "strip-2col"):
        content = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        shown = [text.replace("&#160;", "\u00a0") for text in re.findall(r"<text[^>]*>([^<]*)</text>", content)]
        assert any("\u00a0\u00a0" in text for text in shown)
        assert not any("  " in text or text.startswith(" ") for text in shown)


def test_one_width_alone_is_written_where_one_is_asked_for(tmp_path: Path) -> None:
    frontier = gpt2_eight()
    paths = write_export(tmp_path, tmp_path, study_of(frontier), frontier, (1,))
    assert {path.name for path in paths} == {path.name for path in tmp_path.iterdir()}
    assert {path.stem for path in paths} == {"evidence", "frontier-1col", "table-1col", "captions", "figures"}


def test_equal_studies_give_equal_bytes(tmp_path: Path) -> None:
    frontier = t5()
    first, second = (
        write_export(tmp_path / name, tmp_path, study_of(frontier, T5_CHAINS), frontier) for name in ("a", "b")
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("case", ["all failed", "empty"])
def test_nothing_measured_is_said_in_the_figure(case: str, tmp_path: Path) -> None:
    frontier, chains = CASES[case]
    data = frontier_data(frontier)
    assert data.headline in [text.get_text() for text in figure_of(frontier, 1).axes[0].texts]
    assert all(path.stat().st_size for path in write_export(tmp_path, tmp_path, study_of(frontier, chains), frontier))
