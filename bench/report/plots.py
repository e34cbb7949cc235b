"""Writes all plots of a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.frontier.types import Frontier
from bench.records.compiled import read_compiled
from bench.spec import StudySpec

PLOTS_DIRECTORY = "plots"


def write_plots(directory: Path, study: StudySpec, frontier: Frontier) -> list[Path]:
    """Writes `plots/frontier` and `plots/strip` as PNG and SVG into the study directory and returns their paths."""
    return draw_plots(directory / PLOTS_DIRECTORY, directory, study, frontier, ("png", "svg"))


def draw_plots(
    folder: Path, directory: Path, study: StudySpec, frontier: Frontier, formats: Sequence[str]
) -> list[Path]:
    """Writes `frontier` and `strip` into `folder`; `directory` is the study's, which what was compiled is read from."""
    # Here, so that a verb that prints a table does not wait for matplotlib.
    from bench.report.caption import caption
    from bench.report.compiled_data import compiled_points
    from bench.report.compiled_series import compiled_caption, with_compiled
    from bench.report.frontier_data import frontier_data
    from bench.report.frontier_plot import draw_frontier
    from bench.report.page import save
    from bench.report.strip_data import strip_data
    from bench.report.strip_plot import draw_strip

    compiled = read_compiled(directory)
    points = compiled_points(compiled, study.controls.protocol.target_half_width)
    data, beside = with_compiled(frontier_data(frontier), frontier, points)
    text = caption(study, frontier, data.prefix)
    return [
        *save(draw_frontier(data, text + compiled_caption(compiled, beside), beside), folder, "frontier", formats),
        *save(draw_strip(strip_data(study, frontier), text), folder, "strip", formats),
    ]
