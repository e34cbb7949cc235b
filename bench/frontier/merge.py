"""Joining studies of one control key, such as one study measured in two places."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from bench.records import Forecasts, Plans, Record, Records
from bench.spec import PlacementEntry, StudySpec, differing_controls


def merge_records(studies_and_records: Iterable[tuple[StudySpec, Records]]) -> tuple[StudySpec, Records]:
    """One study with all placements and all records; what is not a control is taken from the first.

    Executions are numbered through, since each study counts its own from 0. The reference is the first that a study
    names. Damaged lines keep the numbers that they have in their own files.

    Raises:
        ValueError: there is no study, or two have different control keys; names the controls that differ.
    """
    parts = list(studies_and_records)
    if not parts:
        raise ValueError("no studies to merge")
    first = parts[0][0]
    for study, _ in parts[1:]:
        _check_same_key(first, study)
    merged = dataclasses.replace(
        first,
        placements=_placements(study for study, _ in parts),
        reference=next((study.reference for study, _ in parts if study.reference is not None), None),
    )
    entries: list[Record] = []
    damaged: list[int] = []
    telemetry_notes: list[str] = []
    forecasts, plans = Forecasts(), Plans()
    for _, records in parts:
        offset = 1 + max((entry.execution for entry in entries), default=-1)
        entries += (dataclasses.replace(entry, execution=entry.execution + offset) for entry in records.entries)
        damaged += records.damaged_lines
        telemetry_notes += records.telemetry_notes
        forecasts = forecasts.joined(records.forecasts)
        plans = plans.joined(records.plans)
    return merged, Records(
        entries=tuple(entries),
        damaged_lines=tuple(damaged),
        telemetry_notes=tuple(dict.fromkeys(telemetry_notes)),
        forecasts=forecasts,
        plans=plans,
    )


def _check_same_key(first: StudySpec, other: StudySpec) -> None:
    if first.key == other.key:
        return
    differing = differing_controls(first.controls, other.controls)
    listed = "; ".join(f"{option}: {left!r} and {right!r}" for option, (left, right) in differing.items())
    raise ValueError(
        f"studies {first.name} ({first.key}) and {other.name} ({other.key}) have different controls and cannot share "
        f"a frontier: {listed or 'their controls are equal, so one key was made by another version; measure it again'}"
    )


def _placements(studies: Iterable[StudySpec]) -> tuple[PlacementEntry, ...]:
    merged: dict[str, PlacementEntry] = {}
    for study in studies:
        for entry in study.placements:
            known = merged.get(entry.text, entry)
            generators = tuple(dict.fromkeys(known.generators + entry.generators))
            merged[entry.text] = dataclasses.replace(known, generators=generators)
    return tuple(merged.values())
