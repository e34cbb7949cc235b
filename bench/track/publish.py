"""Publishing a study: one writer, after measuring, and as often as one likes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bench.frontier.types import Frontier, Trial
from bench.records import AuditRecord, read_records
from bench.spec import StudySpec
from bench.track.content import RunContent
from bench.track.experiment import experiment_name
from bench.track.family import Family, Published as Published, publish_family
from bench.track.placement_run import placement_content
from bench.track.study_run import study_content
from bench.track.tags import PENDING, PLACEMENT_KIND, STUDY_IDENTITY, STUDY_KIND, study_identity
from bench.track.times import read_times


def publish_study(directory: Path, study: StudySpec, frontier: Frontier, tracking_uri: str) -> Published:
    """Brings the store to what the study directory says; a second time changes nothing.

    Raises:
        UnfitStudyError, TrackError: as `publish_family` does.
    """
    return publish_family(directory, partial(_family, directory, study, frontier), tracking_uri, what="study")


def _family(directory: Path, study: StudySpec, frontier: Frontier) -> Family:
    times = read_times(directory)
    identity = study_identity(frontier.study, frontier.key, times.origin)
    audits = {record.placement: record for record in read_records(directory).of(AuditRecord)}

    def parent(experiment_id: str, run_id: str | None) -> RunContent:
        return study_content(
            directory, study, frontier, times, identity=identity, experiment_id=experiment_id, run_id=run_id
        )

    def child(trial: Trial, parent_run_id: str) -> RunContent:
        audit = audits.get(trial.placement)
        return placement_content(
            trial, study, frontier, times, identity=identity, parent_run_id=parent_run_id, audit=audit
        )

    return Family(
        experiment=experiment_name(frontier.model, frontier.device),
        identity_tag=STUDY_IDENTITY,
        identity=identity,
        parent_kind=STUDY_KIND,
        child_kind=PLACEMENT_KIND,
        parent=parent,
        children={trial.id: partial(child, trial) for trial in frontier.trials if trial.outcome != PENDING},
    )
