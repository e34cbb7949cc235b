"""Which step a forecast, an explanation or an audit is of, and which stored study measured it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.cli.request import caps_of, controls_of
from bench.cli.studies import find_study
from bench.records import DamagedStudyError, read_study, slug
from bench.spec import OWN_TARGET, Controls, SpecError, StudySpec


def asked_step(options: Mapping[str, Any]) -> tuple[Controls, StudySpec | None, Path | None]:
    """The step that the command describes; or of the stored study that it names, with the study and its directory.

    Raises:
        SpecError: there is no such study, or its step cannot be built here again; or an option is wrong.
    """
    if options["study"] is None:
        caps_of(options)
        return controls_of(options), None, None
    directory = find_study(options["study"], options["results"])
    study = read_study(directory)
    if study.controls.model.target == OWN_TARGET:
        raise SpecError(
            f"study {study.name}: it measured the step of somebody's own script, which only that script can build"
        )
    return study.controls, study, directory


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


def _comparable(controls: Controls) -> Controls:
    device = dataclasses.replace(controls.device, index=0)
    facts = controls.facts and dataclasses.replace(controls.facts, attention_kernels=())
    return dataclasses.replace(controls, device=device, facts=facts)
