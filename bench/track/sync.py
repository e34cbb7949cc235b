"""Bringing one MLflow run to its content: created, changed where it differs, or left alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from bench.track.content import RunContent, content_digest
from bench.track.tags import CONTENT, OPTIONAL_TAGS, REVISION

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

T = TypeVar("T")

CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"
BATCH = 100
"""MLflow takes 100 params and 100 tags at once."""


def keep_or_create(client: MlflowClient, experiment_id: str, existing: Run | None, content: RunContent) -> Run:
    """The run to fill: `existing`, or a new one.

    MLflow neither changes a param nor takes a metric back. Where that would be needed, as when a placement that had
    been measured is now invalid, the old run goes to MLflow's bin and a new one takes its place.
    """
    if existing is not None and not _contradicts(existing, content):
        return existing
    if existing is not None:
        client.delete_run(existing.info.run_id)
    # Whole at once, digest included, since every further call costs a transaction: that a run is not filled yet is seen
    # by its status, which only `set_terminated` changes.
    tags = dict(content.identity) | dict(content.tags) | {REVISION: "0", CONTENT: content_digest(content)}
    return client.create_run(experiment_id, start_time=content.span.start_ms, tags=tags, run_name=content.name)


def fill(client: MlflowClient, run: Run, content: RunContent) -> bool:
    """Writes what differs, so that a run cut short is finished next time. False: nothing was to be written."""
    digest = content_digest(content)
    ended = (run.info.status, run.info.end_time) == (content.status, content.span.end_ms)
    if ended and run.data.tags.get(CONTENT) == digest:
        return False
    run_id = run.info.run_id
    _log_artifacts(client, run_id, content)
    for name in OPTIONAL_TAGS:
        if name in run.data.tags and name not in content.tags:
            client.delete_tag(run_id, name)
    _log_values(client, run, content, digest)
    client.set_terminated(run_id, status=content.status, end_time=content.span.end_ms)
    return True


def _contradicts(run: Run, content: RunContent) -> bool:
    changed = any(run.data.params.get(key, value) != value for key, value in content.params.items())
    return changed or any(
        gone not in kept
        for had, kept in ((run.data.params, content.params), (run.data.metrics, content.metrics))
        for gone in had
    )


def _log_artifacts(client: MlflowClient, run_id: str, content: RunContent) -> None:
    for name, text in content.texts.items():
        client.log_text(run_id, text, name)
    for name, path in content.files.items():
        folder = name.rpartition("/")[0]
        client.log_artifact(run_id, str(path), folder or None)


def _log_values(client: MlflowClient, run: Run, content: RunContent, digest: str) -> None:
    from mlflow.entities import Metric, Param, RunTag

    revision = _next_revision(run)
    tags = dict(content.tags) | {REVISION: str(revision), CONTENT: digest}
    # Always step 0, since the UI draws a metric with later steps as a line over them and not as a bar a run; the newest
    # value is that of the latest time. A store from before has later steps, which then stay.
    steps = {metric.key: metric.step for metric in run.data._metric_objs}
    metrics = [
        Metric(key, value, content.span.end_ms + revision, steps.get(key, 0))
        for key, value in content.metrics.items()
        if run.data.metrics.get(key) != value
    ]
    params = [Param(key, value) for key, value in content.params.items() if key not in run.data.params]
    changed = [RunTag(key, value) for key, value in tags.items() if run.data.tags.get(key) != value]
    # Of a run that had ended, the digest is in the last batch: a publishing that dies before it is taken up again.
    *earlier, (last_params, last_tags) = _batches(params, changed)
    for some_params, some_tags in earlier:
        client.log_batch(run.info.run_id, params=some_params, tags=some_tags)
    client.log_batch(run.info.run_id, metrics=metrics, params=last_params, tags=last_tags)


def _next_revision(run: Run) -> int:
    """0 until a run holds anything; of two values of a metric at one step, MLflow shows that of the later time."""
    if run.info.end_time is None and not run.data.metrics:
        return 0
    last = run.data.tags.get(REVISION, "")
    return int(last) + 1 if last.isdecimal() else 0


def _batches(params: list[T], tags: list[T]) -> Iterator[tuple[list[T], list[T]]]:
    chunks = [params[start : start + BATCH] for start in range(0, len(params), BATCH)]
    for chunk in chunks[:-1]:
        yield chunk, []
    yield (chunks[-1] if chunks else []), tags


def find_runs(client: MlflowClient, experiment_id: str, tag: str, value: str) -> list[Run]:
    """All live runs whose `tag` is `value`, oldest first; `value` must not hold quotes."""
    runs: list[Run] = []
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id], filter_string=f"tags.`{tag}` = '{value}'", max_results=1000, page_token=token
        )
        runs += page
        token = page.token
        if not token:
            return sorted(runs, key=lambda run: (run.info.start_time, run.info.run_id))


def first_by_tag(runs: Iterable[Run], tag: str) -> Mapping[str, Run]:
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(run.data.tags.get(tag, ""), run)
    return first
