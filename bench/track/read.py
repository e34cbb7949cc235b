"""Reading back what was published: the frontier of a study by the id of its run."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from bench.frontier import FRONTIER_FILE, Frontier, read_frontier
from bench.records import DamagedStudyError
from bench.track.connect import open_client
from bench.track.errors import TrackError
from bench.track.tags import KIND, PARENT_RUN, PLACEMENT_KIND, STUDY_KIND

RUN_ID = re.compile(r"[0-9a-f]{32}")


def is_run_id(text: str) -> bool:
    """Whether `text` has the form of an MLflow run id."""
    return RUN_ID.fullmatch(text) is not None


def published_frontier(run_id: str, tracking_uri: str) -> Frontier:
    """The frontier of the study that run `run_id` of the store is, or is a placement of, as it was published.

    Raises:
        TrackError: the store does not answer, has no such run, or the run is no study's or lost its artifact.
    """
    with open_client(tracking_uri, only_reads=True) as client, tempfile.TemporaryDirectory() as folder:
        run = client.get_run(run_id)
        kind = run.data.tags.get(KIND)
        if kind not in (STUDY_KIND, PLACEMENT_KIND):
            raise TrackError(f"run {run_id} is no study of Boundary Bench; name the run of one, or of a placement")
        study_run_id = run.data.tags[PARENT_RUN] if kind == PLACEMENT_KIND else run_id
        client.download_artifacts(study_run_id, FRONTIER_FILE, folder)
        try:
            return read_frontier(Path(folder))
        except DamagedStudyError as error:
            what = str(error).replace(folder, f"run {study_run_id}")
            raise TrackError(f"{what}; publish the study again from its directory") from None
