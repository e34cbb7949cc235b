"""Verdicts in MLflow: tags to filter by, and the evidence as an artifact of the placement's run."""

from __future__ import annotations

import json
from pathlib import Path

from bench.frontier import build_frontier
from bench.records import AuditRecord, RecordWriter, read_records, write_study
from bench.track import publish_study
from tests.builders import make_records, make_study
from tests.track.stores import client_of

TIMES = {"none": [100.0] * 8, "a": [110.0] * 8}


def test_a_verdict_is_tags_and_its_evidence_an_artifact(tmp_path: Path) -> None:
    study = make_study(("none", "a", "b"))
    directory = tmp_path / "results" / "toy"
    write_study(directory, study)
    writer = RecordWriter(directory)
    writer.append_all(make_records(TIMES, {"none": 100, "a": 80}, {"b": ("invalid", "state: …")}).entries)
    finding = {"kind": "state", "unit": "b", "where": "b.norm", "text": "b: its buffer moved", "cure": "@restore"}
    stamp = {"execution": 0, "process": "p", "unix_time_s": 1.0}
    verdict = AuditRecord(
        **stamp,  # type: ignore[arg-type]
        placement="b",
        key="k",
        outcome="invalid",
        findings=(finding,),
        trials=3,
        differing=3,
        tolerance=0.0,
        steps=2,
    )
    writer.append(verdict)
    writer.close()
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    published = publish_study(directory, study, build_frontier(study, read_records(directory)), uri)
    client = client_of(uri)
    (invalid,) = client.search_runs([published.experiment_id], "tags.`audit/outcome` = 'invalid'")
    assert invalid.data.tags["audit/kinds"] == "state"
    assert invalid.data.metrics == {}
    evidence = Path(client.download_artifacts(invalid.info.run_id, "audit.json", str(tmp_path)))
    told = json.loads(evidence.read_text())
    assert (told["outcome"], told["findings"]) == ("invalid", [finding])
    assert len(client.search_runs([published.experiment_id], "tags.`audit/outcome` = 'valid'")) == 1
