"""`plots`: redraw the plots and tables of a stored study from its records, and write its report."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cli.answer import COMPLETE, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.paths import shown
from bench.cli.project import draw
from bench.cli.request import refuse_unknown
from bench.cli.studies import find_study
from bench.records import read_study
from bench.report.html_report import write_html_report
from bench.report.plots import PLOTS_DIRECTORY


def run(overrides: Sequence[str]) -> int:
    return run_verb("plots", redraw, overrides)


def redraw(options: Options) -> Answer:
    refuse_unknown(options, ("results", "study"))
    view = draw(find_study(options["study"], options["results"]))
    view.print()
    folder = view.directory / PLOTS_DIRECTORY
    report = write_html_report(folder, view.directory, read_study(view.directory), view.frontier)
    print(f"report: {shown(report)}")
    data = {"study": str(view.directory), "plot": str(view.plot) if view.plot else None, "report": str(report)}
    return Answer(exit_code=COMPLETE, data=data)
