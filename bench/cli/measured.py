"""Which stored study measured the step that a forecast or an explanation is of."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.records import DamagedStudyError, read_study, slug
from bench.spec import OWN_TARGET, Controls, SpecError, StudySpec


def measured_study(results: Path, controls: Controls) -> Path | None:
    """The study under `results` of the same controls, facts included; None where there is none.

    Attention kernels may differ: they follow from the other controls, and a forecast finds them by another way than the
    probe of a study does.
    """
    wanted = _comparable(controls)
    for directory in sorted(results.glob(f"{slug(controls.model.name)}-*")):
        try:
            study = read_study(directory)
        except DamagedStudyError:
            continue
        if _comparable(study.controls) == wanted:
            return directory
    return None


def of_study(study: StudySpec) -> None:
    """Raises SpecError where the step of a stored study cannot be built here again."""
    if study.controls.model.target == OWN_TARGET:
        raise SpecError(
            f"study {study.name}: it measured the step of somebody's own script, which only that script can build"
        )


def _comparable(controls: Controls) -> Controls:
    device = dataclasses.replace(controls.device, index=0)
    facts = controls.facts and dataclasses.replace(controls.facts, attention_kernels=())
    return dataclasses.replace(controls, device=device, facts=facts)
