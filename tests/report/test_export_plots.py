"""A frontier of 200 placements, all of them on it: every one is drawn and is a row. How long it takes is not judged."""

from __future__ import annotations

from pathlib import Path

from bench.report.export import write_export
from bench.report.frontier_data import frontier_data
from tests.report.examples import frontier_of, ok, study_of

NUM_PLACEMENTS = 200
two_hundred = frontier_of(
    ok("none", 1000, 1.0),
    *(ok(f"transformer.h.0..{i}", 1000 - 4 * i, 1 + i / 400) for i in range(1, NUM_PLACEMENTS)),
)


def test_all_200_are_on_both_panels_and_all_files_are_written(tmp_path: Path) -> None:
    data = frontier_data(two_hundred)
    assert [len(panel.marks) for panel in data.panels] == [NUM_PLACEMENTS] * 2
    paths = write_export(tmp_path, tmp_path, study_of(two_hundred), two_hundred)
    assert len(paths) == 9
    assert all(path.stat().st_size > 0 for path in paths)
    rows = (tmp_path / "evidence.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == NUM_PLACEMENTS + 1
