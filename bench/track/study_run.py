"""The parent run of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.frontier.types import Frontier
from bench.records import ENVIRONMENT_FILE, FORECAST_FILE, PLAN_FILE, TELEMETRY_SUMMARY_FILE, TRACE_FOLDER
from bench.records.compiled import COMPILED_FILE
from bench.records.timeline import TIMELINE_FILE
from bench.spec import StudySpec
from bench.track.content import MAX_TAG_VALUE, RunContent, fitted, measured, option_params, short_name
from bench.track.description import describe, is_complete
from bench.track.markdown import figure, link
from bench.track.tags import KIND, NOTE, PENDING, PROGRAM, SOURCE, SOURCE_COMMIT, STUDY_IDENTITY, STUDY_KIND
from bench.track.times import Times
from bench.track.view import view_link

STUDY_FILES = (
    "frontier.json",
    "frontier.csv",
    "study.json",
    ENVIRONMENT_FILE,
    TELEMETRY_SUMMARY_FILE,
    FORECAST_FILE,
    TIMELINE_FILE,
    PLAN_FILE,
    COMPILED_FILE,
    "compiled.csv",
    "versus.csv",
)
PLOTS_FOLDER = "plots"
FIGURE = "plots/frontier.png"
MEMORY_ARTIFACTS = "memory"
"""Artifact folder of what `explain` left in the study's trace folder."""


def study_content(
    directory: Path,
    study: StudySpec,
    frontier: Frontier,
    times: Times,
    *,
    identity: str,
    experiment_id: str,
    run_id: str | None = None,
) -> RunContent:
    """What the parent run of a study holds; its status is FAILED while any placement lacks its answer.

    Args:
        run_id: of the parent run itself, whose description shows the figure by it; None until there is one.
    """
    params, param_texts = option_params(frontier.controls)
    complete = is_complete(frontier)
    files = study_files(directory)
    links = _links(files, experiment_id, run_id)
    texts = dict(param_texts)
    optional: dict[str, str] = {}
    for name, text in _optional_tags(study, frontier).items():
        if text:
            optional[name], more = fitted(name, text, MAX_TAG_VALUE, _id_of(frontier, text))
            texts |= more
    return RunContent(
        name=short_name(frontier.study, frontier.key),
        span=times.whole,
        status="FINISHED" if complete else "FAILED",
        identity={STUDY_IDENTITY: identity, KIND: STUDY_KIND},
        params=params,
        metrics=_metrics(frontier),
        tags={
            "study": frontier.study,
            "control_key": frontier.key,
            "completeness": "complete" if complete else "partial",
            NOTE: describe(study, frontier, limit=MAX_TAG_VALUE, links=links),
            SOURCE: PROGRAM,
        }
        | optional,
        texts=texts,
        files=files,
    )


def study_files(directory: Path) -> dict[str, Path]:
    """Artifact path → file. Links are left out: a study directory from elsewhere must not pull in other files."""
    plotted = _below(directory / PLOTS_FOLDER)
    candidates = [(path, path.relative_to(directory)) for path in [*(directory / n for n in STUDY_FILES), *plotted]]
    traces = directory / TRACE_FOLDER
    candidates += [(path, Path(MEMORY_ARTIFACTS) / path.relative_to(traces)) for path in _below(traces)]
    return {
        artifact.as_posix(): path
        for path, artifact in candidates
        if path.is_file() and path.resolve() == directory.resolve() / path.relative_to(directory)
    }


def _links(files: Mapping[str, Path], experiment_id: str, run_id: str | None) -> tuple[str, ...]:
    """The figure, once the run that holds it is known, and the way to all studies of the model on the device."""
    compare = link("Compare with all studies of this experiment", view_link(experiment_id, charts=True))
    if run_id is None or FIGURE not in files:
        return (compare,)
    return (figure("Step time against peak memory", FIGURE, run_id), compare)


def _below(folder: Path) -> list[Path]:
    return [] if folder.is_symlink() else sorted(folder.rglob("*"))


def _metrics(frontier: Frontier) -> dict[str, float]:
    outcomes = [trial.outcome for trial in frontier.trials]
    num_measured, num_pending = outcomes.count("ok"), outcomes.count(PENDING)
    return measured(
        {
            "frontier/hypervolume": frontier.hypervolume.value if frontier.hypervolume else None,
            "frontier/points": len(frontier.frontier),
            "frontier/drift": frontier.drift,
            "placements/measured": num_measured,
            "placements/failed": len(outcomes) - num_measured - num_pending,
            "placements/pending": num_pending,
        }
    )


def _optional_tags(study: StudySpec, frontier: Frontier) -> dict[str, str | None]:
    return {
        "git_commit": study.recorded.get("git_commit"),
        SOURCE_COMMIT: study.recorded.get("git_commit"),
        "reference": frontier.reference,
        "knee": frontier.knee,
    }


def _id_of(frontier: Frontier, placement: str) -> str:
    return next((trial.id for trial in frontier.trials if trial.placement == placement), placement[:100])
