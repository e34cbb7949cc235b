"""The experiment of a model on a device."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bench.records import slug
from bench.track.errors import TrackError

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.tracking import MlflowClient

MAX_PART = 200
TAGS = {
    # Opens MLflow's UI on the runs, not on the traces of a chat application.
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": "Studies of activation checkpointing: a parent run a study, a child run a placement.",
}


def experiment_name(model: str, device: str) -> str:
    """`<model>/<device>`, each without slashes, control characters and surplus space."""
    return f"{_part(model)}/{_part(device)}"


def find_or_create(client: MlflowClient, name: str, artifacts: Path | None) -> str:
    """Id of the experiment; a new one keeps its artifacts in a folder of its own under `artifacts`.

    Raises:
        TrackError: an experiment of that name is in MLflow's bin.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = None if artifacts is None else (artifacts / slug(name)).as_uri()
        try:
            return str(client.create_experiment(name, artifact_location=location, tags=TAGS))
        except MlflowException:
            # Another writer may have been first.
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    return _live_id(experiment)


def _live_id(experiment: Experiment) -> str:
    identifier = str(experiment.experiment_id)
    if experiment.lifecycle_stage != "active":
        raise TrackError(
            f"experiment {experiment.name!r} was deleted there; bring it back with "
            f"`mlflow experiments restore --experiment-id {identifier}`, or delete it for good with `mlflow gc`"
        )
    return identifier


def _part(text: str) -> str:
    clean = " ".join(re.sub(r"[/\\\x00-\x1f\x7f]+", " ", text).split()) or "unknown"
    if len(clean) <= MAX_PART:
        return clean
    return f"{clean[:MAX_PART]}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"
