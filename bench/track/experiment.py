"""The experiment of a model on a device."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bench.records import slug
from bench.track.errors import TrackError
from bench.track.tags import NOTE
from bench.track.view import SHARED_VIEW, view_key, view_link, view_state

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.tracking import MlflowClient

MAX_PART = 200
ABOUT = "Studies of activation checkpointing: a parent run a study, a child run a placement."
OURS = re.compile(re.escape(ABOUT) + r"( Open them \[as charts\]\(\S+\) \([^()]*\) or \[as a table\]\(\S+\)\.)?")
"""A description that nobody has changed."""
# Opens MLflow's UI on the runs, not on the traces of a chat application.
KIND_TAG = {"mlflow.experimentKind": "custom_model_development"}


def experiment_name(model: str, device: str) -> str:
    """`<model>/<device>`, each without slashes, control characters and surplus space."""
    return f"{_part(model)}/{_part(device)}"


def find_or_create(client: MlflowClient, name: str, artifacts: Path | None) -> str:
    """Id of the experiment of a model and device, which has the saved view.

    Raises:
        TrackError: as `live_experiment` does.
    """
    experiment = live_experiment(client, name, artifacts, ABOUT)
    identifier = str(experiment.experiment_id)
    _put_view(client, experiment, identifier)
    return identifier


def live_experiment(client: MlflowClient, name: str, artifacts: Path | None, about: str) -> Experiment:
    """The experiment; a new one keeps its artifacts in a folder of its own under `artifacts`.

    Raises:
        TrackError: an experiment of that name is in MLflow's bin.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = None if artifacts is None else (artifacts / slug(name)).as_uri()
        try:
            identifier = client.create_experiment(name, artifact_location=location, tags=KIND_TAG | {NOTE: about})
            experiment = client.get_experiment(identifier)
        except MlflowException:
            # Another writer may have been first.
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage != "active":
        raise TrackError(
            f"experiment {experiment.name!r} was deleted there; bring it back with "
            f"`mlflow experiments restore --experiment-id {experiment.experiment_id}`, or delete it for good with "
            "`mlflow gc`"
        )
    return experiment


def _put_view(client: MlflowClient, experiment: Experiment, identifier: str) -> None:
    """Adds what the experiment lacks; a description that somebody has written stays as it is."""
    tags = {SHARED_VIEW + view_key(): view_state()}
    if OURS.fullmatch(experiment.tags.get(NOTE, ABOUT)):
        tags[NOTE] = _description(identifier)
    for name, value in tags.items():
        if experiment.tags.get(name) != value:
            set_tag(client, identifier, name, value)


def _description(identifier: str) -> str:
    charts, table = view_link(identifier, charts=True), view_link(identifier, charts=False)
    return f"{ABOUT} Open them [as charts]({charts}) (step time against peak memory) or [as a table]({table})."


def set_tag(client: MlflowClient, identifier: str, name: str, value: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.set_experiment_tag(identifier, name, value)
    except MlflowException:
        # Of two writers that add the same tag at once, a database refuses one.
        if client.get_experiment(identifier).tags.get(name) != value:
            raise


def _part(text: str) -> str:
    clean = " ".join(re.sub(r"[/\\\x00-\x1f\x7f]+", " ", text).split()) or "unknown"
    if len(clean) <= MAX_PART:
        return clean
    return f"{clean[:MAX_PART]}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"
