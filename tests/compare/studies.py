"""Studies with times that are drawn around what a test says, so that their frontiers are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.compare import Measured
from bench.frontier import build_frontier
from bench.records import SAMPLES_FILE, Records, format_record, study_path, write_study
from bench.spec import Controls, StudySpec, WorkloadSpec
from tests.builders import MIB, join_records, make_controls, make_records, make_study

Placements = Mapping[str, tuple[float, float]]
"""Placement → (time ratio to `none`, peak in MiB)."""

THREE: Placements = {"none": (1.0, 1000), "blocks.0": (1.1, 700), "blocks.0..1:each": (1.3, 500)}


def records_of(
    placements: Placements,
    *,
    seed: int,
    rounds: int = 20,
    noise: float = 0.01,
    step_ms: float = 100.0,
    executions: int = 1,
    outcomes: Mapping[str, tuple[str, str]] | None = None,
) -> Records:
    """`noise` is the standard deviation of log step times, independent from sample to sample."""
    generator = np.random.default_rng(seed)
    parts = [
        make_records(
            times={
                text: [float(step_ms * ratio * np.exp(generator.normal(0, noise))) for _ in range(rounds)]
                for text, (ratio, _) in placements.items()
            },
            peaks={text: round(peak * MIB) for text, (_, peak) in placements.items()},
            outcomes=outcomes if execution == 0 else None,
            execution=execution,
        )
        for execution in range(executions)
    ]
    return join_records(*parts)


def study_of(placements: Placements, controls: Controls | None = None, **changed: Any) -> StudySpec:
    return make_study(tuple(placements), controls, **changed)


def measured(
    placements: Placements = THREE, *, seed: int = 0, controls: Controls | None = None, **drawn: Any
) -> Measured:
    study = study_of(placements, controls)
    records = records_of(placements, seed=seed, **drawn)
    return Measured(frontier=build_frontier(study, records), study=study, records=records)


def published(placements: Placements = THREE, **drawn: Any) -> Measured:
    """As `measured`, with the frontier alone."""
    return Measured(frontier=measured(placements, **drawn).frontier)


def failed(placements: Placements = THREE) -> Measured:
    """A study in which every placement ran out of memory."""
    return measured(placements, outcomes=dict.fromkeys(placements, ("oom", "2 GiB wanted")))


def controls_with(**changed: Any) -> Controls:
    return make_controls(**changed)


def longer_sequences(sequence_length: int) -> Controls:
    return make_controls(workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": sequence_length}))


def with_torch(version: str) -> Controls:
    controls = make_controls()
    assert controls.facts is not None
    return dataclasses.replace(controls, facts=dataclasses.replace(controls.facts, versions={"torch": version}))


def write_measured(results: Path, one: Measured) -> Path:
    """A study directory of it."""
    assert one.study is not None
    assert one.records is not None
    directory = study_path(results, one.study)
    write_study(directory, one.study)
    lines = "".join(format_record(record) + "\n" for record in one.records.entries)
    (directory / SAMPLES_FILE).write_text(lines, encoding="utf-8")
    return directory
