"""Placements audited in a process of its own, while no study measures on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.spec import Controls, SpecError, to_mapping
from bench.study.ask import ask_process
from bench.study.device_lock import hold_device
from bench.study.progress import Watch

TIMEOUT_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What `bench.worker.audit` answers."""

    verdicts: tuple[Mapping[str, Any], ...]
    """`bench.audit.verdict.Verdict` as mappings, in the order asked for."""
    unaudited: str = ""
    """Why there are none of the last ones: the step fits with no batch."""


def audit_placements(
    controls: Controls, placements: Sequence[str], options: Mapping[str, int], *, name: str, watch: Watch
) -> tuple[Mapping[str, Any], ...]:
    """Verdicts on canonical placements.

    Args:
        options: fields of `bench.audit.options.AuditOptions`.
        name: what others who want the device meanwhile are told.

    Raises:
        SpecError: the step cannot be audited as asked, such as one that fits with no batch.
        WorkerError: the process broke, or the device stays busy.
    """
    request = {"controls": to_mapping(controls), "placements": list(placements), "options": dict(options)}
    with hold_device(controls, name, watch):
        told = ask_process("bench.worker.audit", request, controls, Audited, what="the audit", timeout_s=TIMEOUT_S)
    if told.unaudited:
        raise SpecError(told.unaudited)
    return told.verdicts
