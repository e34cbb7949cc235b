"""`publish`: rebuild the MLflow runs of a stored study or capacity; one that is published already stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.capacities import find_capacity
from bench.cli.entry import Options, run_verb
from bench.cli.project import draw, publish
from bench.cli.projected_capacity import publish_answer, redraw_capacity
from bench.cli.request import refuse_unknown
from bench.cli.studies import find_study
from bench.cli.tracking import check_tracker
from bench.spec import SpecError
from bench.track import UnfitStudyError, check_directory


def run(overrides: Sequence[str]) -> int:
    return run_verb("publish", republish, overrides)


def republish(options: Options) -> Answer:
    refuse_unknown(options, ("results", "study", "tracker"))
    check_tracker(options["results"], options["tracker"])
    capacity = find_capacity(options["study"], options["results"])
    if capacity is not None:
        return _republish_capacity(options, capacity)
    directory = find_study(options["study"], options["results"])
    _check(directory)
    draw(directory)
    published = publish(directory, options["results"], options["tracker"])
    return Answer(exit_code=COMPLETE if published else PARTIAL, data={"study": str(directory), "published": published})


def _republish_capacity(options: Options, directory: Path) -> Answer:
    _check(directory)
    answer = redraw_capacity(directory)
    published = publish_answer(directory, answer, options["results"], options["tracker"])
    return Answer(
        exit_code=COMPLETE if published else PARTIAL, data={"capacity": str(directory), "published": published}
    )


def _check(directory: Path) -> None:
    try:
        check_directory(directory)
    except UnfitStudyError as error:
        raise SpecError(str(error)) from None
