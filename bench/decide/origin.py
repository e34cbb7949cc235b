"""What a saved placement keeps of the study that it was chosen from."""

from __future__ import annotations

from bench.decide.types import Candidate
from bench.placement.origin import Fingerprint, Origin
from bench.spec import ModelSpec, StudySpec


def origin_of(directory_name: str, study: StudySpec, candidate: Candidate | None, reference: str | None) -> Origin:
    controls, facts = study.controls, study.controls.facts
    assert facts is not None, "a stored study was probed"
    return Origin(
        study=directory_name,
        key=study.key,
        model=controls.model.name,
        fingerprint=Fingerprint.of_recorded(study.recorded),
        units={chain.name: chain.units for chain in study.chains},
        precision=controls.precision,
        device=controls.device.kind,
        device_name=facts.device_name,
        versions=dict(facts.versions),
        micro_batch=controls.workload.micro_batch,
        shape=dict(controls.workload.shape),
        time_ratio=None if candidate is None else candidate.time_ratio,
        reference=reference,
        peak_allocated_bytes=None if candidate is None else candidate.peak_allocated_bytes,
        dropout=dropout_of(controls.model),
    )


def dropout_of(model: ModelSpec) -> float | None:
    """The largest of its settings that are one; None where it has none."""
    found = [value for name, value in model.settings.items() if "dropout" in name]
    return max(
        (float(value) for value in found if isinstance(value, (int, float)) and not isinstance(value, bool)),
        default=None,
    )
