"""Studies of the toy family in which many placements fail, each in its own way: one study, few processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.frontier import Trial, build_frontier
from bench.records import ExecutionStarted, MemorySample, Records
from bench.spec import Caps, ModelSpec, ProtocolSpec, StudySpec
from tests.toy_study import run, toy_controls, toy_study

LAYERS = 9
SOUND = f"blocks.{LAYERS - 1}"
"""A placement that no fault is in."""
ONE_ROUND = ProtocolSpec(rounds_min=1, rounds_max=1, warmup_steps_min=0, warmup_steps_max=0)
NUMBERS = ("step_time_ms", "time_ratio", "peak_allocated_bytes", "persistent_bytes", "retained_bytes", "step_flops")


@dataclass(frozen=True, kw_only=True)
class Faulted:
    directory: Path
    records: Records
    trials: dict[str, Trial]

    @property
    def outcomes(self) -> dict[str, str]:
        return {text: trial.outcome for text, trial in self.trials.items()}

    @property
    def num_processes(self) -> int:
        return len(self.records.of(ExecutionStarted))

    def bytes_of(self, placement: str) -> tuple[int, int, int]:
        """(persistent, retained, peak) bytes of a placement's memory pass."""
        (sample,) = (s for s in self.records.of(MemorySample) if s.placement == placement)
        return sample.persistent_bytes, sample.retained_bytes, sample.peak_allocated_bytes


def fault_study(faults: str, placements: tuple[str, ...], caps: Caps | None = None, **controls: Any) -> StudySpec:
    """A study of `none`, `placements` and SOUND; see `tests.families.toy` for how faults are written."""
    settings = {"layers": LAYERS, "width": 32, "fault": faults}
    model = ModelSpec(name="toy", target="tests.families.toy", settings=settings)
    texts = ("none", *placements, SOUND)
    return toy_study(texts, toy_controls(model=model, **{"protocol": ONE_ROUND, **controls}), caps)


def run_faulted(results: Path, study: StudySpec) -> Faulted:
    directory, records = run(study, results)
    trials = {trial.placement: trial for trial in build_frontier(study, records).trials}
    return Faulted(directory=directory, records=records, trials=trials)


def fault_blocks(*faults: str) -> tuple[str, tuple[str, ...]]:
    """Faults, one a block from the first on, and the placements that meet them."""
    assert len(faults) < LAYERS
    written = (fault if "." in fault else f"{index}.replay:{fault}" for index, fault in enumerate(faults))
    return ",".join(written), tuple(f"blocks.{index}" for index in range(len(faults)))
