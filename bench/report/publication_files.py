"""The files for print: each figure in each width and format, the tables, and captions as text and as LaTeX floats."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.compare import Comparison
from bench.frontier.types import Frontier
from bench.records import replace_text
from bench.records.compiled import read_compiled
from bench.report.compare_data import compare_data
from bench.report.compiled_data import compiled_points
from bench.report.compiled_series import compiled_caption, with_compiled
from bench.report.frontier_data import frontier_data
from bench.report.page import PAGE_WIDTH
from bench.report.publication_caption import frontier_caption, strip_caption, studies_caption, table_caption
from bench.report.publication_data import NAMED, PublicationData, named_placements, publication_data
from bench.report.publication_latex import FigureFile, latex_figures
from bench.report.publication_names import study_names
from bench.report.publication_page import WIDTHS, save_for_print
from bench.report.publication_plot import draw_for_print
from bench.report.publication_studies import draw_studies_for_print
from bench.report.publication_table import as_latex_table, publication_table
from bench.report.strip_data import StripData, strip_data
from bench.report.strip_plot import draw_strip
from bench.spec import StudySpec

CAPTIONS_FILE, FLOATS_FILE = "captions.txt", "figures.tex"
STRIP, STRIP_COLUMNS = "strip-2col", 2
"""A strip has a column for each unit of the model beside names and values: it needs the whole page."""


def write_study_files(
    folder: Path, directory: Path, study: StudySpec, frontier: Frontier, columns: Sequence[int]
) -> list[Path]:
    """Figures, table and captions of one study."""
    compiled = read_compiled(directory)
    points = compiled_points(compiled, study.controls.protocol.target_half_width)
    data, series = with_compiled(frontier_data(frontier), frontier, points)
    beside = compiled_caption(compiled, series)
    figures, paths = [], []
    for count in columns:
        drawn = series[0] if series else ()
        shown = publication_data(data, NAMED[count], drawn)
        name = f"frontier-{count}col"
        paths += save_for_print(draw_for_print(shown, count, drawn), folder, name)
        text = frontier_caption(study, frontier, data.prefix, shown, beside)
        figures.append(FigureFile(name=name, columns=count, caption=text))
        paths.append(_write_table(folder, study, frontier, named_placements(shown, frontier.frontier), count))
        if count == STRIP_COLUMNS:
            rows = strip_rows(study, frontier, shown)
            paths += _write_strip(folder, rows)
            text = strip_caption(study, frontier, data.prefix, len(rows.rows))
            figures.append(FigureFile(name=STRIP, columns=count, caption=text))
    return paths + _write_captions(folder, figures)


def write_studies_files(
    folder: Path, comparison: Comparison, frontiers: Sequence[Frontier], columns: Sequence[int]
) -> list[Path]:
    """The figure of several studies, and its caption."""
    data, names = compare_data(comparison), study_names(comparison.studies, frontiers)
    caption = studies_caption(comparison, data, names)
    figures, paths = [], []
    for count in columns:
        name = f"frontiers-{count}col"
        paths += save_for_print(draw_studies_for_print(data, names, count), folder, name)
        figures.append(FigureFile(name=name, columns=count, caption=caption))
    return paths + _write_captions(folder, figures)


def strip_rows(study: StudySpec, frontier: Frontier, shown: PublicationData) -> StripData:
    """A row for each placement that the figure of the frontier names, by the number that it has there."""
    named = named_placements(shown, frontier.frontier)
    rows = strip_data(study, dataclasses.replace(frontier, frontier=named))
    numbered = [dataclasses.replace(row, tag=entry.tag) for row, entry in zip(rows.rows, shown.key, strict=True)]
    return dataclasses.replace(rows, rows=tuple(numbered))


def _write_strip(folder: Path, rows: StripData) -> list[Path]:
    figure = draw_strip(rows, "")
    shrunk = WIDTHS[STRIP_COLUMNS] / PAGE_WIDTH
    figure.set_size_inches(shrunk * figure.get_figwidth(), shrunk * figure.get_figheight())
    return save_for_print(figure, folder, STRIP)


def _write_table(folder: Path, study: StudySpec, frontier: Frontier, named: Sequence[str], columns: int) -> Path:
    table = publication_table(frontier, named, columns)
    path = folder / f"table-{columns}col.tex"
    caption = table_caption(study, frontier, table)
    replace_text(path, as_latex_table(table, caption, columns))
    return path


def _write_captions(folder: Path, figures: Sequence[FigureFile]) -> list[Path]:
    texts = (
        (CAPTIONS_FILE, "\n\n".join(f"{figure.name}\n{figure.caption}" for figure in figures) + "\n"),
        (FLOATS_FILE, latex_figures(figures)),
    )
    for name, text in texts:
        replace_text(folder / name, text)
    return [folder / name for name, _ in texts]
