"""A comparison as one MLflow run of its own, in an experiment of comparisons, with its figures and tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.compare.types import ABSOLUTE, SCALES, AtBudget, Comparison, Pairing
from bench.track.connect import open_client
from bench.track.content import MAX_TAG_VALUE, RunContent, fitted, measured, option_params, short_name, storable
from bench.track.errors import TrackError
from bench.track.experiment import live_experiment
from bench.track.family import PUBLISH_WAIT_S
from bench.track.lock import exclusive
from bench.track.markdown import cut, escape, figure
from bench.track.secrets import without_password
from bench.track.sync import fill, find_runs, keep_or_create
from bench.track.tags import KIND, NOTE, PROGRAM, SOURCE
from bench.track.times import Span, read_times
from bench.track.uri import artifact_root

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

EXPERIMENT = "comparisons"
COMPARISON_IDENTITY = "boundary_bench.comparison"
COMPARISON_KIND = "comparison"
ABOUT = "Comparisons of studies, a run each. The studies themselves are in the experiments of their models."
FILES = ("comparison.json", "comparison.csv")
FIGURES = ("plots/frontiers.png", "plots/ratios.png")
REST = "\n\nThe rest is in the artifact `comparison.csv`."
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class PublishedComparison:
    experiment_name: str
    experiment_id: str
    run_id: str
    changed: bool
    """False where the run was there already and holds the same."""
    tracking_uri: str
    """Without a password."""


def publish_comparison(
    directory: Path, comparison: Comparison, studies: Sequence[Path | None], tracking_uri: str
) -> PublishedComparison:
    """Brings the store to what the comparison's folder says; a second time changes nothing.

    Args:
        directory: the comparison's, below `comparisons/` of the results folder.
        studies: directory of each study, or None for one that is there as a published frontier alone.

    Raises:
        TrackError: the store is of no usable kind, down, locked or refuses. The folder is left as it is.
    """
    try:
        with (
            exclusive(directory, wait_s=PUBLISH_WAIT_S, holder="another publishing of this comparison"),
            open_client(tracking_uri) as client,
        ):
            # results/comparisons/<name>: artifacts lie beside those of studies.
            artifacts = artifact_root(tracking_uri, directory.parents[1])
            experiment_id = str(live_experiment(client, EXPERIMENT, artifacts, ABOUT).experiment_id)
            run, changed = _publish(client, experiment_id, directory, comparison, studies)
    except TrackError as error:
        raise TrackError(
            f"{error}. The comparison is safe in {directory}; the same command publishes it again"
        ) from error
    return PublishedComparison(
        experiment_name=EXPERIMENT,
        experiment_id=experiment_id,
        run_id=run.info.run_id,
        changed=changed,
        tracking_uri=without_password(tracking_uri),
    )


def comparison_content(
    directory: Path, comparison: Comparison, studies: Sequence[Path | None], run_id: str | None
) -> RunContent:
    """
    Args:
        run_id: of the run itself, whose description shows the figures by it; None until there is one.
    """
    params, texts = option_params(_params(comparison))
    labels = {f"study.{e.label}": e.study for e in comparison.studies}
    unlike = [pairing.label for pairing in comparison.pairings if pairing.unlike]
    return RunContent(
        name=short_name(comparison.name, comparison_identity(comparison)[:8]),
        span=_span(directory, studies),
        status="FINISHED",
        identity={COMPARISON_IDENTITY: comparison_identity(comparison), KIND: COMPARISON_KIND},
        params=params,
        metrics=_metrics(comparison),
        tags={
            "baseline": comparison.studies[0].study,
            "candidates": fitted("candidates", ", ".join(e.study for e in comparison.studies[1:]), 500, "many")[0],
            "like_for_like": f"not {', '.join(unlike)}" if unlike else "yes",
            NOTE: describe_comparison(comparison, _files(directory), run_id, limit=MAX_TAG_VALUE),
            SOURCE: PROGRAM,
        }
        | labels,
        texts=texts,
        files=_files(directory),
    )


def comparison_identity(comparison: Comparison) -> str:
    """Plain hex over which studies are compared under which name; what comes out of it does not matter."""
    whole = [comparison.name, *([entrant.study, entrant.key] for entrant in comparison.studies)]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]


def describe_comparison(comparison: Comparison, files: dict[str, Path], run_id: str | None, *, limit: int) -> str:
    """Markdown: the studies, step time at budgets, figures, what differs, notes; at most `limit` characters."""
    baseline = comparison.studies[0]
    rows = ["| | study | model | device | hypervolume | knee |", "|---|---|---|---|---|---|"]
    for entrant in comparison.studies:
        area = "" if entrant.relative.hypervolume is None else f"{entrant.relative.hypervolume:.3f}"
        names = (entrant.study, entrant.model, entrant.device)
        cells = [entrant.label, *map(escape, names), area, escape(entrant.knee.placement or "none")]
        rows.append(f"| {' | '.join(cells)} |")
    parts = [f"**{escape(comparison.name)}**: {baseline.label} is the baseline", "", *rows]
    parts += [f"\n{figure(Path(name).stem, name, run_id)}" for name in FIGURES if run_id is not None and name in files]
    for pairing in comparison.pairings:
        parts += ["", f"**{pairing.label} against {baseline.label}**", "", *_budget_table(pairing)]
        differing = "; ".join(map(escape, pairing.differences)) or "no control"
        parts += ["", f"What differs: {differing}."]
    if comparison.notes:
        parts += ["", "Notes:", "", *(f"- {escape(note, limit=None)}" for note in comparison.notes)]
    return cut(parts, limit, REST)


def _budget_table(pairing: Pairing) -> list[str]:
    rows = ["| budget | step time over the baseline's | verdict |", "|---|---|---|"]
    for scale in SCALES:
        for row in pairing.against(scale).budgets:
            contest = row.contest
            ratio = "" if contest.ratio is None else f"{contest.ratio:.3f}"
            if contest.interval is not None:
                ratio += f" \\[{contest.interval.low:.3f}, {contest.interval.high:.3f}\\]"
            rows.append(f"| {_budget(row, scale)} | {ratio} | {contest.verdict} |")
    return rows


def _budget(row: AtBudget, scale: str) -> str:
    if row.share is None or row.budget is None:
        return f"{scale}: any memory"
    size = f" ({row.budget / MIB:.0f} MiB)" if scale == ABSOLUTE else ""
    return f"{scale}: {100 * row.share:g} % of none{size}"


def _params(comparison: Comparison) -> dict[str, object]:
    shares = {row.share for pairing in comparison.pairings for row in pairing.relative.budgets if row.share is not None}
    return {
        "baseline": comparison.studies[0].study,
        "num_studies": len(comparison.studies),
        "budgets": sorted(shares),
        "reference_point.time_ratio": comparison.reference_point.time_ratio,
        "reference_point.peak_ratio": comparison.reference_point.peak_ratio,
    } | {f"control_key.{entrant.label}": entrant.key for entrant in comparison.studies}


def _metrics(comparison: Comparison) -> dict[str, float]:
    """By scale and candidate. Absolute ones of studies that are not like for like are left out: a metric has no room
    to say so."""
    metrics: dict[str, float | None] = {}
    for entrant in comparison.studies:
        metrics[f"hypervolume/{entrant.label}"] = entrant.relative.hypervolume
        metrics[f"knee_confidence/{entrant.label}"] = entrant.knee.confidence
    for pairing in comparison.pairings:
        for scale in SCALES:
            if scale == ABSOLUTE and pairing.unlike:
                continue
            against, head = pairing.against(scale), f"{scale}/{pairing.label}"
            interval = against.hypervolume_interval
            metrics |= {
                f"{head}_hypervolume_ratio": against.hypervolume_ratio,
                f"{head}_hypervolume_ratio_low": interval.low if interval else None,
                f"{head}_hypervolume_ratio_high": interval.high if interval else None,
                f"{head}_epsilon": against.candidate_epsilon,
                f"{head}_epsilon_of_baseline": against.baseline_epsilon,
            }
            for row in against.budgets:
                at = "any" if row.share is None else f"{100 * row.share:g}"
                metrics[f"{head}_time_ratio_at_{at}"] = row.contest.ratio
    return measured(metrics)


def _files(directory: Path) -> dict[str, Path]:
    """Artifact path → file."""
    plotted = sorted((directory / "plots").glob("*.*"))
    return {
        path.relative_to(directory).as_posix(): path
        for path in [*(directory / name for name in FILES), *plotted]
        if path.is_file() and not path.is_symlink()
    }


def _span(directory: Path, studies: Sequence[Path | None]) -> Span:
    """When the studies were measured, so that the same comparison is the same run whenever it is made; that of its
    folder where none of them is here."""
    spans = [read_times(study).whole for study in studies if study is not None] or [read_times(directory).whole]
    return Span(start_ms=min(span.start_ms for span in spans), end_ms=max(span.end_ms for span in spans))


def _publish(
    client: MlflowClient,
    experiment_id: str,
    directory: Path,
    comparison: Comparison,
    studies: Sequence[Path | None],
) -> tuple[Run, bool]:
    def content(run_id: str | None) -> RunContent:
        return storable(comparison_content(directory, comparison, studies, run_id))

    runs = find_runs(client, experiment_id, COMPARISON_IDENTITY, comparison_identity(comparison))
    known = runs[0] if runs else None
    before = content(known.info.run_id if known is not None else None)
    if known is not None:
        # The time of a folder changes whenever it is written; the run keeps the one that it has.
        before = replace(before, span=_kept_span(known, before.span, studies))
    run = keep_or_create(client, experiment_id, known, before)
    whole = content(run.info.run_id)
    return run, fill(client, run, replace(whole, span=before.span))


def _kept_span(run: Run, span: Span, studies: Sequence[Path | None]) -> Span:
    if any(study is not None for study in studies) or run.info.end_time is None:
        return span
    return Span(start_ms=run.info.start_time, end_ms=run.info.end_time)
