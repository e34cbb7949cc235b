"""A frontier of 200 placements, all of them on it: each is drawn and is a row, and work is done once for all files.

How long it takes is not judged here; docs/export.md says how it is timed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.report import frontier_plot, label_layout
from bench.report.export import write_export
from bench.report.frontier_data import frontier_data
from bench.report.label_layout import Box, centred, place_labels, spread_out
from tests.report.examples import frontier_of, ok, study_of

NUM_PLACEMENTS = 200
two_hundred = frontier_of(
    ok("none", 1000, 1.0),
    *(ok(f"transformer.h.0..{i}", 1000 - 4 * i, 1 + i / 400) for i in range(1, NUM_PLACEMENTS)),
    knee="transformer.h.0..77",
)
PER_WIDTH = 4
"""Three formats of the figure, and the table."""
ONCE = 3 + 2 + 2
"""Three formats of the strip, evidence as CSV and Markdown, captions as text and LaTeX."""


def test_all_200_are_on_both_panels_and_all_files_are_written(tmp_path: Path) -> None:
    data = frontier_data(two_hundred)
    assert [len(panel.marks) for panel in data.panels] == [NUM_PLACEMENTS] * 2
    paths = write_export(tmp_path, tmp_path, study_of(two_hundred), two_hundred)
    assert len(paths) == len(set(paths)) == 2 * PER_WIDTH + ONCE
    assert all(path.stat().st_size > 0 for path in paths)
    rows = (tmp_path / "evidence.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == NUM_PLACEMENTS + 1


def test_labels_are_laid_out_once_for_all_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(anchors: Any, *rest: Any, **options: Any) -> Any:
        calls.append(len(anchors))
        return place_labels(anchors, *rest, **options)

    monkeypatch.setattr(frontier_plot, "place_labels", counted)
    write_export(tmp_path, tmp_path, study_of(two_hundred), two_hundred)
    assert calls == [8, 16]  # one panel a width, whose three files share it


def test_a_lone_label_is_weighed_in_one_lot_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed = _count_boxes(monkeypatch)
    place_labels([(100, 100)], [(10, 8)], [], Box(0, 0, 200, 200), distance=10)
    in_one_order = label_layout.LOT * (1 + label_layout.LEADER_SAMPLES - label_layout.LEADER_SAMPLES // 3)
    assert 0 < weighed() <= 2 * in_one_order * 3  # both orders; against marks, lines and the frame


def test_what_is_out_of_reach_costs_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed = _count_pairs(monkeypatch)

    def work(num_clusters: int) -> int:
        before = weighed()
        anchors = [(100.0 + 1000 * cluster, 100.0 + 4 * i) for cluster in range(num_clusters) for i in range(10)]
        marks = [centred(x, y, 6, 6) for x, y in anchors]
        place_labels(anchors, [(10, 8)] * len(anchors), marks, Box(0, 0, 10_000, 200), distance=10)
        return weighed() - before

    assert work(4) == 4 * work(1)


def test_at_most_so_many_numbers_stand_in_a_panel_however_long_the_frontier_is() -> None:
    panel = frontier_data(two_hundred).panels[0]
    shown = frontier_plot.tagged_marks(panel)
    assert len(shown) == frontier_plot.TAGS_SHOWN
    assert {"1", str(NUM_PLACEMENTS), "78"} <= {mark.tag for mark in shown}


def test_points_that_lie_far_apart_are_chosen() -> None:
    points = [(float(i), 0.0) for i in range(11)]
    assert spread_out(points, 3, [0, 10]) == [0, 5, 10]
    assert spread_out(points, 1) == [0]
    assert spread_out(points, 20) == list(range(11))
    assert spread_out([(1.0, 1.0)] * 5, 2) == [0, 1]


def _count_boxes(monkeypatch: pytest.MonkeyPatch) -> Any:
    return _counter(monkeypatch, lambda boxes, others: boxes.size // 4)


def _count_pairs(monkeypatch: pytest.MonkeyPatch) -> Any:
    return _counter(monkeypatch, lambda boxes, others: boxes.size // 4 * len(others))


def _counter(monkeypatch: pytest.MonkeyPatch, counted: Any) -> Any:
    """Counts what the real function is asked for."""
    real, total = label_layout.overlaps, [0]

    def counting(boxes: Any, others: Any) -> Any:
        total[0] += counted(boxes, others)
        return real(boxes, others)

    monkeypatch.setattr(label_layout, "overlaps", counting)
    return lambda: total[0]
