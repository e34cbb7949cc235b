"""Steps recorded op by op in a process of their own; real ones while no study measures on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records import make_directory
from bench.spec import ChainInfo, Controls, to_mapping
from bench.study.ask import ask_process
from bench.study.device_lock import hold_device
from bench.study.progress import Watch

TIMEOUT_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What `bench.worker.explain` answers."""

    logs: Mapping[str, str]
    """Placement → file in the folder; the plain step among them where it could be followed."""
    candidates: tuple[Mapping[str, Any], ...]
    """The next regions to try: `bench.trace.candidate.Candidate` as mappings, the best first."""
    chains: tuple[ChainInfo, ...]
    notes: tuple[str, ...]


def record_steps(
    controls: Controls, placements: Sequence[str], folder: Path, *, real: bool, name: str, watch: Watch
) -> Recorded:
    """
    Args:
        placements: canonical texts; the first is what the candidates go on from.
        folder: for the logs.
        real: run the steps on the device; else on tensors without memory, and then no device is waited for.
        name: what others who want the device meanwhile are told.

    Raises:
        SpecError: a step cannot be had as asked, such as one that does not fit.
        WorkerError: the process broke, or the device stays busy.
        CannotWriteError: the folder cannot be made.
    """
    make_directory(folder)
    request = {
        "controls": to_mapping(controls),
        "placements": list(placements),
        "folder": str(folder),
        "real": real,
    }
    module, what = "bench.worker.explain", "the recording"
    with hold_device(controls, name, watch) if real else nullcontext():
        return ask_process(module, request, controls, Recorded, what=what, timeout_s=TIMEOUT_S)
