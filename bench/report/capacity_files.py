"""Writes what a capacity answer is read from: its plots, `answer.csv` and `answer.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.capacity.types import Answer
from bench.records import replace_text
from bench.report.capacity_evidence import capacity_csv, capacity_markdown

PLOTS_FOLDER = "plots"
CSV_FILE, MARKDOWN_FILE = "answer.csv", "answer.md"


def write_capacity_files(directory: Path, answer: Answer) -> list[Path]:
    """Writes both tables and `plots/throughput` and `plots/sizes` as PNG and SVG; returns the paths, pictures first.

    Raises:
        CannotWriteError: the folder is full or not writable.
    """
    pictures = draw_capacity_plots(directory / PLOTS_FOLDER, answer)
    for name, text in ((CSV_FILE, capacity_csv(answer)), (MARKDOWN_FILE, capacity_markdown(answer))):
        replace_text(directory / name, text)
    return [*pictures, directory / CSV_FILE, directory / MARKDOWN_FILE]


def draw_capacity_plots(folder: Path, answer: Answer, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Writes `throughput` and `sizes` into `folder`."""
    # Here, so that a verb that prints a table does not wait for matplotlib.
    from bench.report.capacity_data import capacity_data
    from bench.report.capacity_plot import draw_capacity
    from bench.report.capacity_sizes import draw_sizes, sizes_data
    from bench.report.page import save

    return [
        *save(draw_capacity(capacity_data(answer)), folder, "throughput", formats),
        *save(draw_sizes(sizes_data(answer)), folder, "sizes", formats),
    ]
