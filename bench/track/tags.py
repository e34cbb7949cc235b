"""Names of the tags that publishing writes, and the identity that runs are found again by."""

from __future__ import annotations

import hashlib
import json

PARENT_RUN = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
SOURCE, SOURCE_COMMIT = "mlflow.source.name", "mlflow.source.git.commit"
"""What MLflow's UI shows as the source and the version of a run."""
PROGRAM = "boundary-bench"

STUDY_IDENTITY = "boundary_bench.study"
KIND = "boundary_bench.kind"
PLACEMENT_ID = "placement_id"
CONTENT = "boundary_bench.content"
"""Digest of what was published last; a run with an equal one is left alone."""
REVISION = "boundary_bench.revision"
"""Counts publishings that changed the run; their metrics are that many ms later, so that the newest value is shown."""

STUDY_KIND = "study"
PLACEMENT_KIND = "placement"

PENDING = "pending"
"""Outcome of a placement that has not been measured yet."""

AUDIT_OUTCOME, AUDIT_KINDS, TWIN_OF = "audit/outcome", "audit/kinds", "audit/twin_of"

OPTIONAL_TAGS = (
    *("reason", "git_commit", SOURCE_COMMIT, "reference", "knee", "verdict", "verdict_reason", "steadiness"),
    *(AUDIT_OUTCOME, AUDIT_KINDS, TWIN_OF),
)
"""Tags that a later publishing may take back."""


def study_identity(study: str, key: str, origin: str) -> str:
    """Plain hex over all that makes a study itself, safe to search for whatever characters its name has."""
    return hashlib.sha256(json.dumps([study, key, origin]).encode()).hexdigest()[:32]
