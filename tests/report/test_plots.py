"""The drawing steps: what is on the page, that nothing is cut or hidden, and that files are the same every time."""

from __future__ import annotations

import itertools
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from bench.frontier.types import Frontier
from bench.report import write_plots
from bench.report.caption import caption
from bench.report.frontier_data import frontier_data
from bench.report.frontier_plot import draw_frontier, family_markers
from bench.report.page import wrap
from bench.report.strip_data import ALONE, PLAIN, strip_data
from bench.report.strip_plot import draw_strip
from bench.spec import ChainInfo
from tests.report.examples import (
    GPT2_CHAINS,
    GPT2_XL_CHAINS,
    T5_CHAINS,
    failed,
    frontier_of,
    gpt2_eight,
    gpt2_sixteen,
    ok,
    sixty,
    study_of,
    t5,
)

LONG = "+".join(f"transformer.h.{i}:keep.attention.matmul%2@no-rng" for i in range(12))
CASES = {
    "eight": (gpt2_eight(), GPT2_CHAINS),
    "sixteen": (gpt2_sixteen(), GPT2_CHAINS),
    "two chains": (t5(), T5_CHAINS),
    "sixty": (sixty(), GPT2_XL_CHAINS),
    "long names": (
        frontier_of(
            ok("none", 3236, 1.0, "none", width=0),
            ok(LONG, 2400, 1.2),
            failed(LONG.replace("h.0:", "h.0.mlp:"), "crashed", "worker died by SIGSEGV; " * 12),
        ),
        GPT2_CHAINS,
    ),
    "one point": (frontier_of(ok("none", 3236, 1.0, "none", width=0)), GPT2_CHAINS),
    "much elsewhere": (
        frontier_of(
            ok("none", 1000, 1.0, "none", width=0),
            ok("+".join(f"net.head.of.the.whole.net.{i}" for i in range(12)), 600, 1.2, "planned (600.0 MiB)"),
        ),
        tuple(
            ChainInfo(name=f"net.stages.{i}.layers", units=tuple(f"net.stages.{i}.layers.{j}" for j in range(3)))
            for i in range(4)
        ),
    ),
    "all failed": (frontier_of(failed("none", "oom", "too big")), GPT2_CHAINS),
    "empty": (frontier_of(), GPT2_CHAINS),
}


def frontier_figure(frontier: Frontier, chains: tuple[ChainInfo, ...] = GPT2_CHAINS) -> Figure:
    data = frontier_data(frontier)
    return draw_frontier(data, caption(study_of(frontier, chains), frontier, data.prefix))


def strip_figure(frontier: Frontier, chains: tuple[ChainInfo, ...] = GPT2_CHAINS) -> Figure:
    study = study_of(frontier, chains)
    return draw_strip(strip_data(study, frontier), caption(study, frontier))


def texts(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


def page_words(figure: Figure) -> str:
    return "".join(text.get_text().strip() for text in figure.axes[0].texts)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("draw", [frontier_figure, strip_figure])
def test_nothing_is_cut_at_the_edge_of_the_page(case: str, draw) -> None:  # type: ignore[no-untyped-def]
    figure = draw(*CASES[case])
    FigureCanvasAgg(figure).draw()
    page = figure.bbox
    for text in texts(figure):
        box = text.get_window_extent()
        if box.width and text.axes is not None:
            assert page.x0 - 1 <= box.x0, text.get_text()
            assert box.x1 <= page.x1 + 1, text.get_text()
            assert page.y0 - 1 <= box.y0, text.get_text()
            assert box.y1 <= page.y1 + 1, text.get_text()


@pytest.mark.parametrize("case", ["eight", "sixteen", "two chains", "sixty", "long names"])
def test_numbers_do_not_overlap_and_stand_in_both_panels(case: str) -> None:
    frontier, chains = CASES[case]
    figure = frontier_figure(frontier, chains)
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes[1:]:
        tags = [t for t in axes.texts if isinstance(t, Annotation) and t.get_fontweight() == "bold"]
        numbers = {tag.get_text() for tag in tags if tag.get_text().isdigit()}
        assert numbers == {str(n + 1) for n in range(len(frontier.frontier))}
        # The text alone, without the line that leads to its mark.
        boxes = [Text.get_window_extent(tag) for tag in tags]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_chains_whose_names_are_too_wide_are_told_apart_by_what_differs() -> None:
    figure = strip_figure(*CASES["much elsewhere"])
    bold = [text.get_text() for text in texts(figure) if text.get_fontweight() == "bold"]
    assert [name for name in bold if name in ("0", "1", "2", "3")][:4] == ["0", "1", "2", "3"]
    assert "also 12 elsewhere" in page_words(figure)


@pytest.mark.parametrize("case", ["eight", "two chains"])
def test_texts_of_the_page_do_not_overlap(case: str) -> None:
    for figure in (frontier_figure(*CASES[case]), strip_figure(*CASES[case])):
        FigureCanvasAgg(figure).draw()
        boxes = [(t.get_text(), t.get_window_extent().shrunk(0.98, 0.7)) for t in figure.axes[0].texts]
        clashes = [(a, b) for (a, box), (b, other) in itertools.combinations(boxes, 2) if box.overlaps(other)]
        assert clashes == []


def test_panels_have_a_point_for_each_trial_a_step_line_and_labels() -> None:
    figure = frontier_figure(gpt2_eight())
    page, relative, absolute = figure.axes
    assert page.get_label() == "page"
    assert (relative.get_title(loc="left"), absolute.get_title(loc="left")) == ("Relative to none", "Absolute")
    assert (absolute.get_xlabel(), absolute.get_ylabel()) == ("Peak allocated memory (MiB)", "Step time (s)")
    for axes in (relative, absolute):
        num_points = sum(len(c.get_offsets()) for c in axes.collections if type(c).__name__ == "PathCollection")
        assert num_points == 8
        line = next(line for line in axes.lines if line.get_label() == "frontier")
        assert len(line.get_xdata()) == 2 * 6 - 1


def test_key_names_every_frontier_placement_in_full() -> None:
    assert LONG.replace("transformer.", "") in page_words(frontier_figure(*CASES["long names"]))
    words = page_words(frontier_figure(*CASES["two chains"]))
    assert all(placement in words for placement in t5().frontier)


def test_failures_are_listed_with_outcome() -> None:
    figure = frontier_figure(gpt2_sixteen())
    assert "h.0..11:each:keep.matmul%2  oom: wanted 77.2 MiB at 3.9 GiB of a limit of 4.0 GiB" in page_words(figure)
    assert sum(line.get_marker() == "x" for line in figure.axes[0].lines) == 2


def test_a_long_reason_is_shortened_and_says_so_its_placement_is_whole() -> None:
    words = page_words(frontier_figure(*CASES["long names"]))
    assert LONG.replace("transformer.", "").replace("h.0:", "h.0.mlp:") in words
    assert words.count("SIGSEGV") < 12
    assert "…" in words


def test_a_measured_invalid_placement_is_a_cross_in_the_panels() -> None:
    for axes in frontier_figure(sixty()).axes[1:]:
        assert sum(line.get_marker() == "x" for line in axes.lines) == 1


def test_strip_has_a_cell_for_each_unit_and_row() -> None:
    figure = strip_figure(frontier_of(ok("none", 3000, 1.0, width=0), ok("transformer.h.0..4:each", 2000, 1.2)))
    labels = [patch.get_label() for patch in figure.axes[0].patches]
    legend = 1
    assert labels.count(PLAIN) == 12 + 7 + legend
    assert labels.count(ALONE) == 5 + legend


def test_strip_draws_a_boundary_for_each_span_and_hatches_what_is_kept() -> None:
    spans = "transformer.h.0..5:keep.matmul+transformer.h.6..11"
    figure = strip_figure(frontier_of(ok("none", 3000, 1.0, width=0), ok(spans, 2000, 1.2)))
    labels = [patch.get_label() for patch in figure.axes[0].patches]
    legend = 1
    assert labels.count("span") == 2 + legend
    assert labels.count("keeps") == 6 + legend


def test_families_differ_in_colour_and_in_marker() -> None:
    looks = family_markers().values()
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == len(looks)


def test_wrapped_lines_lose_no_word_and_break_one_that_is_too_long() -> None:
    assert " ".join(wrap("one two three four five", 0.5)) == "one two three four five"
    assert len(wrap("one two three four five", 0.5)) > 1
    assert "".join(wrap("a" * 400, 2.0)) == "a" * 400


def test_files_are_valid_and_the_same_every_time(tmp_path: Path) -> None:
    frontier = t5()
    study = study_of(frontier, T5_CHAINS)
    first, second = (write_plots(tmp_path / name, study, frontier) for name in ("a", "b"))
    assert [str(path.relative_to(tmp_path / "a")) for path in first] == [
        "plots/frontier.png", "plots/frontier.svg", "plots/strip.png", "plots/strip.svg",
    ]  # fmt: skip
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    for path in first:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        else:
            root = xml.etree.ElementTree.parse(path).getroot()
            assert root.tag.endswith("svg")
            assert b"<text" not in path.read_bytes()
            assert b"<dc:date" not in path.read_bytes()


@pytest.mark.parametrize("case", ["all failed", "empty"])
def test_nothing_measured_gives_plots_that_say_so(case: str, tmp_path: Path) -> None:
    frontier, chains = CASES[case]
    assert all(path.stat().st_size for path in write_plots(tmp_path, study_of(frontier, chains), frontier))
    assert frontier_data(frontier).headline in page_words(frontier_figure(frontier, chains))


def test_drawing_changes_no_global_setting() -> None:
    before = dict(matplotlib.rcParams)
    frontier_figure(gpt2_eight())
    strip_figure(gpt2_eight())
    assert dict(matplotlib.rcParams) == before


def test_reports_need_no_torch() -> None:
    modules = "bench.report.plots, bench.report.frontier_plot, bench.report.strip_plot, bench.report.table"
    script = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
