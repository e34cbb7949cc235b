"""`plots`: redraw the plots and tables of a stored study from its records."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cli.answer import COMPLETE, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.project import draw
from bench.cli.request import refuse_unknown
from bench.cli.studies import find_study


def run(overrides: Sequence[str]) -> int:
    return run_verb("plots", redraw, overrides)


def redraw(options: Options) -> Answer:
    refuse_unknown(options, ("results", "study"))
    view = draw(find_study(options["study"], options["results"]))
    view.print()
    return Answer(
        exit_code=COMPLETE, data={"study": str(view.directory), "plot": str(view.plot) if view.plot else None}
    )
