"""The figures of a capacity: what stands where, and that nothing is cut off or hidden."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.capacity.types import Answer
from bench.report.capacity_data import best_corners, capacity_data
from bench.report.capacity_files import write_capacity_files
from bench.report.capacity_plot import draw_capacity
from bench.report.capacity_sizes import draw_sizes, sizes_data
from tests.report.capacity_examples import ALL, BLOCKS, FOUR, MIB, MLPS, PLAIN, WRONG, Reach, make_answer

NOTHING = {PLAIN: Reach(largest=None, next_size=1, next_peak=5000 * MIB)}
MANY = FOUR | {
    f"transformer.h.0..{i}:each": Reach(largest=5 + i, next_size=6 + i, rate=790.0 - 9 * i) for i in range(2, 10)
}
CASES = {
    "four": lambda: make_answer(),
    "many": lambda: make_answer(MANY),
    "nothing fits": lambda: make_answer(NOTHING),
    "none alone": lambda: make_answer({PLAIN: FOUR[PLAIN]}),
    "none does not fit": lambda: make_answer({**NOTHING, BLOCKS: FOUR[BLOCKS], ALL: FOUR[ALL]}),
    "not timed": lambda: make_answer(rounds=0),
    "one round": lambda: make_answer(rounds=1),
    "invalid": lambda: make_answer(FOUR | {WRONG: Reach(largest=None, next_size=None, valid=False)}),
    "long": lambda: make_answer(FOUR | {"+".join(f"transformer.h.{i}.mlp" for i in range(12)): FOUR[MLPS]}),
}


def test_a_mark_is_a_size_and_nones_throughput_times_the_paired_ratio() -> None:
    data = capacity_data(make_answer())
    marks = {(mark.label, mark.size): mark for mark in data.marks}
    none, blocks = marks["none", 4.0], marks["h.0..10:each", 16.0]
    assert blocks.rate == pytest.approx(0.88 * none.rate, rel=0.005)
    assert blocks.rate_low < blocks.rate < blocks.rate_high
    assert (data.none_size, data.none_rate) == (4.0, none.rate)


def test_sizes_below_the_largest_are_other_marks_of_one_trace() -> None:
    data = capacity_data(make_answer())
    blocks = sorted((mark.size, mark.is_largest) for mark in data.marks if mark.label == "h.0..10:each")
    assert blocks == [(8.0, False), (16.0, True)]
    assert [[x for x, _ in trace] for trace in data.traces] == [[8.0, 16.0], [8.0, 16.0]]


def test_placements_are_numbered_from_the_smallest_size_on_and_none_is_named() -> None:
    data = capacity_data(make_answer())
    assert [(row.tag, row.label, row.on_frontier) for row in data.key] == [
        ("none", "none", False),
        ("1", "h.0..11.mlp:each", True),
        ("2", "h.0..10:each", True),
        ("3", "h.0..11:each", False),
    ]
    assert {mark.tag for mark in data.marks if not mark.is_largest} == {""}


def test_of_many_placements_the_frontier_alone_is_numbered() -> None:
    crowd = {f"transformer.h.{i}": Reach(largest=5, next_size=6, rate=700.0 - i) for i in range(12)}
    crowd |= {f"transformer.h.{i}.mlp": Reach(largest=5, next_size=6, rate=600.0 - i) for i in range(12)}
    data = capacity_data(make_answer(FOUR | crowd))
    assert [row.label for row in data.key] == ["none", "h.0..11.mlp:each", "h.0..10:each"]


def test_the_frontiers_line_goes_down_to_the_larger_size_and_on() -> None:
    assert best_corners([(16, 700), (6, 840)]) == ((6, 840), (6, 700), (16, 700))
    assert best_corners([]) == ()


def test_multiples_beyond_all_marks_are_not_drawn() -> None:
    data = capacity_data(make_answer({PLAIN: FOUR[PLAIN], MLPS: Reach(largest=9, next_size=10, rate=810.0)}))
    assert data.multiples == (8.0,)


def test_without_none_there_are_no_relative_axes() -> None:
    data = capacity_data(CASES["none does not fit"]())
    assert data.none_size is None
    assert [mark.tag for mark in data.marks] == ["1", "2"]
    figure = draw_capacity(data)
    panel = next(axes for axes in figure.axes if axes.get_label() != "page")
    assert panel.child_axes == []


def test_relative_axes_have_their_1_at_nones_mark() -> None:
    data = capacity_data(make_answer())
    figure = draw_capacity(data)
    FigureCanvasAgg(figure).draw()
    panel = next(axes for axes in figure.axes if axes.get_label() != "page")
    upper, right = panel.child_axes
    low, high = panel.get_xlim()
    assert upper.get_xlim() == pytest.approx((low / 4, high / 4))
    low, high = panel.get_ylim()
    assert right.get_ylim() == pytest.approx((low / data.none_rate, high / data.none_rate))  # type: ignore[operator]


def test_what_was_not_timed_is_listed_with_how_far_it_goes() -> None:
    data = capacity_data(CASES["not timed"]())
    assert data.headline == "No placement was timed."
    assert (data.not_shown[0].ended, data.not_shown[0].reason) == ("not timed", "fits up to 4")
    invalid = capacity_data(CASES["invalid"]()).not_shown
    assert [(row.label, row.ended) for row in invalid] == [("h.0..11:each@no-rng", "invalid")]


def test_a_bar_is_the_largest_size_with_what_is_left_and_what_the_next_one_takes() -> None:
    data = sizes_data(make_answer())
    assert [(bar.label, bar.size, bar.next_size) for bar in data.bars] == [
        ("h.0..10:each", 16, 17),
        ("h.0..11:each", 16, 17),
        ("h.0..11.mlp:each", 6, 7),
        ("none", 4, 5),
    ]
    assert data.bars[0].values == ("16", "×4", "16", "17: 4200")
    assert data.end > 17


@pytest.mark.parametrize("case", CASES)
def test_every_text_lies_on_the_page(case: str) -> None:
    for figure in figures(CASES[case]()):
        width, height = figure.get_size_inches() * figure.dpi
        for box in _boxes(figure):
            assert -1 <= box.x0 < box.x1 <= width + 1
            assert -1 <= box.y0 < box.y1 <= height + 1


@pytest.mark.parametrize("case", CASES)
def test_lines_of_text_do_not_lie_on_each_other(case: str) -> None:
    for figure in figures(CASES[case]()):
        page = next(axes for axes in figure.axes if axes.get_label() == "page")
        boxes = _boxes(figure, page.texts)
        for index, box in enumerate(boxes):
            assert not any(_overlap(box, other) for other in boxes[:index])


def test_files_are_written_the_same_way_every_time(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in _written(tmp_path / "a")}
    second = {path.name: path.read_bytes() for path in _written(tmp_path / "b")}
    assert set(first) == {
        *("throughput.png", "throughput.svg", "sizes.png", "sizes.svg"),
        *("answer.csv", "answer.md"),
    }
    assert first == second
    for name in ("throughput.svg", "sizes.svg"):
        xml.etree.ElementTree.fromstring(first[name])


def figures(answer: Answer) -> list[Figure]:
    return [draw_capacity(capacity_data(answer)), draw_sizes(sizes_data(answer))]


def _written(folder: Path) -> list[Path]:
    folder.mkdir()
    return write_capacity_files(folder, make_answer())


def _boxes(figure: Figure, texts: list[Text] | None = None):  # type: ignore[no-untyped-def]
    """Extents of `texts`, by default of all that is drawn: numbers of ticks beyond the ends of an axis are not."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    every = [axes for parent in figure.axes for axes in (parent, *parent.child_axes)]
    all_axes = [axis for axes in every for axis in (axes.xaxis, axes.yaxis)]
    ticks = [(axis, tick) for axis in all_axes for tick in axis.get_major_ticks()]
    numbers = {id(label) for _, tick in ticks for label in (tick.label1, tick.label2)}
    shown = {
        id(label)
        for axis, tick in ticks
        for label in (tick.label1, tick.label2)
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
