"""Writes all plots of a study."""

from __future__ import annotations

from pathlib import Path

from bench.frontier.types import Frontier
from bench.spec import StudySpec

PLOTS_DIRECTORY = "plots"


def write_plots(directory: Path, study: StudySpec, frontier: Frontier) -> list[Path]:
    """Writes `plots/frontier` and `plots/strip` as PNG and SVG into the study directory and returns their paths."""
    # Here, so that a verb that prints a table does not wait for matplotlib.
    from bench.report.caption import caption
    from bench.report.frontier_data import frontier_data
    from bench.report.frontier_plot import draw_frontier
    from bench.report.page import save
    from bench.report.strip_data import strip_data
    from bench.report.strip_plot import draw_strip

    data = frontier_data(frontier)
    text = caption(study, frontier, data.prefix)
    plots = directory / PLOTS_DIRECTORY
    return [
        *save(draw_frontier(data, text), plots, "frontier"),
        *save(draw_strip(strip_data(study, frontier), text), plots, "strip"),
    ]
