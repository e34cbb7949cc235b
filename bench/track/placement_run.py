"""The child run of one placement."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bench.frontier.types import Frontier, Trial
from bench.placement import PlacementError, parse_placement
from bench.records import AuditRecord
from bench.spec import Controls, StudySpec, to_mapping
from bench.track.content import MAX_PARAM_VALUE, MAX_TAG_VALUE, RunContent, fitted, measured, option_params, short_name
from bench.track.placement_note import describe_placement
from bench.track.tags import (
    AUDIT_KINDS,
    AUDIT_OUTCOME,
    KIND,
    NOTE,
    PARENT_RUN,
    PLACEMENT_ID,
    PLACEMENT_KIND,
    PROGRAM,
    SOURCE,
    SOURCE_COMMIT,
    STUDY_IDENTITY,
    TWIN_OF,
)
from bench.track.times import Times

MIB = 2**20
EVIDENCE_FILE = "audit.json"
"""Artifact of a placement's run: its verdict with all findings and the first op that differed."""


def placement_content(
    trial: Trial,
    study: StudySpec,
    frontier: Frontier,
    times: Times,
    *,
    identity: str,
    parent_run_id: str,
    audit: AuditRecord | None = None,
) -> RunContent:
    """What the child run of `trial` holds; one that is not `ok` holds no metric at all. `audit` is its last verdict."""
    placement, placement_texts = fitted("placement", trial.placement, MAX_PARAM_VALUE, trial.id)
    reason, reason_texts = fitted("reason", trial.reason, MAX_TAG_VALUE, trial.reason[:200])
    generators, generator_texts = fitted(
        "generators", ", ".join(trial.generators), MAX_TAG_VALUE, f"{len(trial.generators)} generators"
    )
    controls, control_texts = option_params(filter_controls(study.controls, frontier.device))
    commit = study.recorded.get("git_commit", "")
    return RunContent(
        name=short_name(trial.placement, trial.id),
        span=times.placements.get(trial.placement, times.whole),
        status="FINISHED" if trial.outcome == "ok" else "FAILED",
        identity={STUDY_IDENTITY: identity, KIND: PLACEMENT_KIND, PLACEMENT_ID: trial.id},
        params=controls | shape_of_placement(trial.placement) | {"placement": placement, "placement_id": trial.id},
        metrics=_metrics(trial, frontier) if trial.outcome == "ok" else {},
        tags={
            PARENT_RUN: parent_run_id,
            "study": frontier.study,
            "control_key": frontier.key,
            "outcome": trial.outcome,
            "on_frontier": str(trial.on_frontier).lower(),
            "generators": generators,
            SOURCE: PROGRAM,
            NOTE: describe_placement(trial, frontier)[:MAX_TAG_VALUE],
        }
        | _judged(trial)
        | _audited(trial)
        | ({"reason": reason} if reason else {})
        | ({"git_commit": commit, SOURCE_COMMIT: commit} if commit else {}),
        texts=placement_texts | reason_texts | generator_texts | control_texts | _evidence(audit),
    )


def _audited(trial: Trial) -> dict[str, str]:
    """`tags."audit/outcome" = 'invalid'`. A placement that was not audited has none of them."""
    if trial.audit is None:
        return {}
    kinds = {AUDIT_KINDS: " ".join(trial.audit_kinds)} if trial.audit_kinds else {}
    twin = {TWIN_OF: trial.twin_of[:MAX_TAG_VALUE]} if trial.twin_of else {}
    return {AUDIT_OUTCOME: trial.audit} | kinds | twin


def _evidence(audit: AuditRecord | None) -> dict[str, str]:
    if audit is None:
        return {}
    return {EVIDENCE_FILE: json.dumps(to_mapping(audit), indent=2, ensure_ascii=False) + "\n"}


def _judged(trial: Trial) -> dict[str, str]:
    """Words to filter by: `tags.verdict = 'slower'`."""
    if trial.outcome != "ok":
        return {}
    reason = {"verdict_reason": trial.verdict_reason[:MAX_TAG_VALUE]} if trial.verdict_reason else {}
    steadiness = {"steadiness": trial.steadiness} if trial.steadiness else {}
    return ({"verdict": trial.verdict} if trial.verdict else {}) | reason | steadiness


def filter_controls(controls: Controls, device: str) -> dict[str, object]:
    """The controls that a person filters and groups runs by, under the names that the parent has them by."""
    options: dict[str, object] = {
        "device": device,
        "model.name": controls.model.name,
        "precision": controls.precision,
        "optimizer.name": controls.optimizer.name,
        "workload.micro_batch": controls.workload.micro_batch,
        "workload.accumulation": controls.workload.accumulation,
    }
    return options | {f"workload.shape.{name}": size for name, size in controls.workload.shape.items()}


def shape_of_placement(text: str) -> dict[str, str]:
    """What a chart can group placements by: their number of regions, and the ops whose outputs those keep.

    Both are there for every placement, since MLflow leaves runs out of a chart that lack one of its params.
    """
    try:
        regions = parse_placement(text).regions
    except PlacementError:
        return {}
    kept = sorted({keep.op for region in regions for keep in region.keeps})
    keeps = "+".join(kept) if kept else "nothing" if regions else "everything"
    shown, _ = fitted("keeps", keeps, MAX_PARAM_VALUE, f"{len(kept)} ops")
    return {"placement.regions": str(len(regions)), "placement.keeps": shown}


def _metrics(trial: Trial, frontier: Frontier) -> Mapping[str, float]:
    peak, reference_peak = trial.peak_allocated_bytes, _reference_peak(frontier)
    interval = trial.time_ratio_interval
    return measured(
        {
            "time/step_time_ms": frontier.paired_step_time_ms(trial),
            "time/ratio": trial.time_ratio,
            "time/ratio_low": interval.low if interval else None,
            "time/ratio_high": interval.high if interval else None,
            "time/replay_ms": trial.replay_ms,
            "time/expected_replay_ms": trial.expected_replay_ms,
            "time/expected_replay_error_share": trial.expected_replay_error_share,
            "time/spread_within": trial.spread_within,
            "time/spread_between": trial.spread_between,
            "memory/peak_allocated_bytes": peak,
            "memory/peak_allocated_mib": None if peak is None else peak / MIB,
            "memory/peak_share_of_reference": peak / reference_peak if peak is not None and reference_peak else None,
            "memory/persistent_bytes": trial.persistent_bytes,
            "memory/retained_bytes": trial.retained_bytes,
            "memory/peak_requested_bytes": trial.peak_requested_bytes,
            "memory/peak_reserved_bytes": trial.peak_reserved_bytes,
            "memory/forecast_peak_bytes": trial.forecast_peak_bytes,
            "memory/forecast_error_share": trial.forecast_error_share,
            "memory/expected_peak_bytes": trial.expected_peak_bytes,
            "memory/expected_peak_error_share": trial.expected_peak_error_share,
            "cost/step_flops": trial.step_flops,
            "cost/replay_flops": trial.replay_flops,
            "cost/replay_ops": trial.replay_ops,
            "frontier/confidence": trial.frontier_confidence,
        }
    )


def _reference_peak(frontier: Frontier) -> int | None:
    return next((t.peak_allocated_bytes for t in frontier.trials if t.placement == frontier.reference), None)
