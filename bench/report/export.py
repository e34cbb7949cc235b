"""Writes what a paper or a report takes from a study: its plots as PNG, SVG and PDF, and its evidence as tables."""

from __future__ import annotations

from pathlib import Path

from bench.frontier.types import Frontier
from bench.records import replace_text
from bench.report.evidence_data import evidence_table
from bench.report.evidence_text import as_csv, as_latex, as_markdown
from bench.report.plots import draw_plots
from bench.spec import StudySpec

FORMATS = ("png", "svg", "pdf")


def write_export(folder: Path, directory: Path, study: StudySpec, frontier: Frontier) -> list[Path]:
    """Writes everything into `folder`, which need not exist, and returns the paths.

    Args:
        directory: the study's own, from which is read what was compiled; nothing is written there unless `folder` is
            in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = evidence_table(frontier)
    paths = []
    for suffix, text in (("csv", as_csv(table)), ("md", as_markdown(table)), ("tex", as_latex(table))):
        paths.append(folder / f"evidence.{suffix}")
        replace_text(paths[-1], text)
    return [*paths, *draw_plots(folder, directory, study, frontier, FORMATS)]
