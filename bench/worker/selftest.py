"""`python -m bench.worker.selftest STUDY_DIR`: one execution of a study whose placements are all the plain step.

The names of its placements are `none`, `copy.N` (the plain step again) and `delay.P.N` (each step is made P % longer by
sleeping). They are timed by the same rounds as any study; memory is not weighed. `python -m bench selftest
real.run=true` makes such studies.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, cast

import torch

from bench.placement.applying import Applied
from bench.records import PLAIN, Work
from bench.spec import Controls, StudySpec
from bench.step import Step, build_training_step
from bench.step.interface import OnPhase
from bench.worker.__main__ import main
from bench.worker.bench import Bench
from bench.worker.journal import Journal
from bench.worker.rounds import Clock, run_rounds
from bench.worker.run import stop
from bench.worker.warmup import first_step, warm_up

DELAY = "delay."


def delay_of(name: str) -> float:
    """Share by which a step under that name is longer: 0.05 for `delay.5.0`."""
    return float(name.removeprefix(DELAY).rpartition(".")[0]) / 100 if name.startswith(DELAY) else 0.0


class DelayedBench(Bench):
    """Every placement is the plain step, some of them with a delay."""

    def __init__(self, controls: Controls, device: torch.device, placements: Sequence[str]) -> None:
        super().__init__(controls, device, (PLAIN,), cast(Step, _DelayedStep(build_training_step(controls, device))))

    def placed(self, text: str) -> Applied:
        assert isinstance(self.step, _DelayedStep)
        self.step.delay = delay_of(text)
        return super().placed(PLAIN)


class _DelayedStep:
    """A step that waits for the device, and takes `delay` of its own time longer by sleeping then."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.delay = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def run(self, on_phase: OnPhase | None = None) -> torch.Tensor:
        began = time.perf_counter()
        loss = self._step.run(on_phase)
        if self._step.device.type == "cuda":
            torch.cuda.synchronize(self._step.device)
        if self.delay:
            time.sleep(self.delay * (time.perf_counter() - began))
        return loss


def time_alone(study: StudySpec, work: Work, journal: Journal, clock: Clock, bench: Bench) -> None:
    """What a worker does of an execution, without weighing."""
    first_step(bench, work.placements, journal)
    warm_up(bench, work.placements, study.controls.protocol, journal)
    alive = [text for text in work.placements if text not in journal.failed]
    stop(journal, clock, run_rounds(bench, study, work, alive, journal, clock), alive)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], DelayedBench, time_alone))
