"""The drawn timeline and overlay: what is said on them, and that files are whole and the same every time."""

from __future__ import annotations

import re
import xml.etree.ElementTree
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.report.memory_colours import COLOURS
from bench.report.memory_data import memory_data
from bench.report.memory_overlay import difference, memory_overlay
from bench.report.memory_timeline import memory_timeline, steps
from bench.report.page import save
from bench.report.quantities import Unit
from bench.spec.roles import PARAMETER
from bench.trace.categories import CATEGORIES
from bench.trace.log import StepLog
from tests.report.memory_logs import KIB, LogBuilder, toy_log

LONG = "a model whose name is " + "_".join(["very"] * 60)
UNIT = Unit("KiB", KIB, 1)


def big_log() -> StepLog:
    """50,000 blocks, of which a single one in the midst makes the peak for one event."""
    b = LogBuilder()
    b.persistent(10**9, PARAMETER)
    b.phase("forward")
    for number in range(25_000):
        (block,) = b.op("op", f"h.{number // 2500}", (10**6 + 10**9 * (number == 12_345),))
        b.free(block)
    b.phase("end")
    return b.log()


CASES = {
    "plain": lambda: memory_timeline(toy_log()),
    "replayed": lambda: memory_timeline(toy_log(replayed=True)),
    "forecast, long title": lambda: memory_timeline(toy_log(is_fake=True), title=LONG),
    "over each other": lambda: memory_overlay(toy_log(replayed=True), toy_log()),
    "over each other, long title": lambda: memory_overlay(toy_log(), toy_log(replayed=True), title=LONG),
    "nothing happens": lambda: memory_timeline(LogBuilder().log()),
}


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_cut_at_the_edge_of_the_page(case: str) -> None:
    figure = CASES[case]()
    FigureCanvasAgg(figure).draw()
    page = figure.bbox
    for text in figure.findobj(Text):
        box = text.get_window_extent()
        if text.get_text().strip() and box.width and text.axes is not None:
            assert page.x0 - 1 <= box.x0, text.get_text()
            assert box.x1 <= page.x1 + 1, text.get_text()
            assert page.y0 - 1 <= box.y0, text.get_text()
            assert box.y1 <= page.y1 + 1, text.get_text()


def test_the_peak_is_said_in_bytes_and_where_it_is() -> None:
    log = toy_log()
    said = words(memory_timeline(log))
    peak = f"{log.peak()[0] / KIB:,.1f} KiB"
    assert peak in said  # at the mark
    assert any(
        text.startswith(f"Peak {peak}: backward, head, cross_entropy_backward (op {log.op_at(log.peak()[1])})")
        for text in said
    )


def test_the_mark_stands_on_the_peak() -> None:
    log = toy_log(replayed=True)
    data = memory_data(log)
    panel = memory_timeline(log).axes[1]
    (mark,) = [line for line in panel.lines if line.get_label() == "peak mark"]
    assert list(mark.get_xdata()) == [data.peak.left]
    assert list(mark.get_ydata()) == [log.peak()[0] / KIB]


def test_phases_modules_and_categories_are_named() -> None:
    said = words(memory_timeline(toy_log(replayed=True)))
    for name in ("forward", "backward", "optimizer", "zero grad", "regions", "modules"):
        assert name in said
    assert {"mlp", "head"} & set(said)
    for category in memory_data(toy_log(replayed=True)).peak.by_category:
        assert any(category in text for text in said)


def test_accumulated_micro_batches_are_numbered() -> None:
    b = LogBuilder()
    for b.micro_batch in range(2):
        b.phase("forward")
        b.op("op", "h.0", (KIB,))
        b.phase("backward")
        b.op("op", "h.0", (KIB,))
    said = words(memory_timeline(b.log()))
    assert [text for text in said if re.fullmatch(r"(forward|backward) \d", text)] == [
        "forward 1", "backward 1", "forward 2", "backward 2",
    ]  # fmt: skip


def test_a_bar_for_each_pass_hatched_where_it_is_replayed() -> None:
    labels = [patch.get_label() for patch in memory_timeline(toy_log(replayed=True)).axes[0].patches]
    assert (labels.count("first pass"), labels.count("replay")) == (2, 2)


def test_a_forecast_says_that_it_is_one() -> None:
    assert any(text.startswith("Forecast peak ") for text in words(memory_timeline(toy_log(is_fake=True))))
    assert not any("Forecast" in text for text in words(memory_timeline(toy_log())))
    both = words(memory_overlay(toy_log(replayed=True), toy_log(is_fake=True)))
    assert [" Forecast peak " in text for text in both if text.startswith(("this: ", "other: "))] == [False, True]


def test_a_single_high_moment_among_very_many_is_drawn() -> None:
    figure = memory_timeline(big_log())
    (mark,) = [line for line in figure.axes[1].lines if line.get_label() == "peak mark"]
    top = max(vertex[1] for area in figure.axes[1].collections for path in area.get_paths() for vertex in path.vertices)
    assert top == pytest.approx(mark.get_ydata()[0])
    assert top == pytest.approx((2 * 10**9 + 10**6) / 2**20)


def test_every_category_has_a_colour_of_its_own() -> None:
    assert set(CATEGORIES) <= set(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_a_stepped_line_keeps_only_its_corners() -> None:
    assert steps((0.0, 1.0, 2.0, 3.0), [5, 5, 7, 7], 4.0) == ([0.0, 2.0, 2.0, 4.0], [5, 5, 7, 7])


def test_both_peaks_are_marked_and_the_differences_add_up() -> None:
    placed, plain = toy_log(replayed=True), toy_log()
    figure = memory_overlay(placed, plain)
    said = words(figure)
    for log in (placed, plain):
        assert f"{log.peak()[0] / KIB:,.1f} KiB" in said
    table = [text for text in said if re.search(r"(KiB|none|same)$", text) and "  " in text]
    changes = {row[: row.index("  ")]: _signed(row) for row in table}
    total = changes.pop("all")
    assert total == pytest.approx((placed.peak()[0] - plain.peak()[0]) / KIB, abs=0.06)
    assert sum(changes.values()) == pytest.approx(total, abs=0.5)


def _signed(row: str) -> float:
    last = row.split("  ")[-1].strip()
    return 0.0 if last == "same" else float(last.removesuffix(" KiB").replace("−", "-").replace(",", ""))


def test_less_and_more_are_shaded_apart() -> None:
    panel = memory_overlay(toy_log(replayed=True), toy_log()).axes[1]
    shades = {area.get_label(): area for area in panel.collections}
    assert len(shades["less"].get_paths()) > 0
    assert not (shades["less"].get_facecolor() == shades["more"].get_facecolor()).all()
    assert not memory_overlay(toy_log(), toy_log()).axes[1].collections[0].get_paths()


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "same"), (-2048, "−2.0 KiB"), (1024, "+1.0 KiB"), (-3, "< 0.1 KiB")]
)
def test_differences_that_can_be_told_have_a_sign(num_bytes: int, text: str) -> None:
    assert difference(num_bytes, UNIT) == text


def test_files_are_valid_and_the_same_every_time(tmp_path: Path) -> None:
    first, second = (
        save(memory_overlay(toy_log(replayed=True), toy_log()), tmp_path / name, "memory") for name in ("a", "b")
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert xml.etree.ElementTree.parse(first[1]).getroot().tag.endswith("svg")
