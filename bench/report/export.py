"""Writes what a paper or a report takes from studies: figures as PNG, SVG and PDF, their captions, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare import Comparison
from bench.frontier.types import Frontier
from bench.records import replace_text
from bench.report.evidence_data import evidence_table
from bench.report.evidence_text import as_csv, as_markdown
from bench.spec import StudySpec

BOTH = (1, 2)
"""Columns that figures and tables are made for."""


def write_export(
    folder: Path, directory: Path, study: StudySpec, frontier: Frontier, columns: Sequence[int] = BOTH
) -> list[Path]:
    """Writes everything of one study into `folder`, which need not exist, and returns the paths.

    Args:
        directory: the study's own, from which is read what was compiled; nothing is written there unless `folder` is
            in it.
        columns: of 1 and 2, the widths that figures and tables are made for.
    """
    # Here, so that a verb that writes nothing does not wait for matplotlib.
    from bench.report.publication_files import write_study_files

    folder.mkdir(parents=True, exist_ok=True)
    table = evidence_table(frontier)
    paths = []
    for suffix, text in (("csv", as_csv(table)), ("md", as_markdown(table))):
        paths.append(folder / f"evidence.{suffix}")
        replace_text(paths[-1], text)
    return [*paths, *write_study_files(folder, directory, study, frontier, columns)]


def write_studies_export(
    folder: Path, comparison: Comparison, frontiers: Sequence[Frontier], columns: Sequence[int] = BOTH
) -> list[Path]:
    """Writes the figure of several studies into `folder`, which need not exist, and returns the paths.

    Args:
        comparison: of them, the first being what the others are told apart from.
        frontiers: theirs, in its order.
    """
    from bench.report.publication_files import write_studies_files

    folder.mkdir(parents=True, exist_ok=True)
    return write_studies_files(folder, comparison, frontiers, columns)
