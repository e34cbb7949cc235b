"""Thousands of simulated studies: how often equal placements are called different, and injected delays are found."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.records import PLAIN
from bench.selftest.noise import NOISES
from bench.selftest.oracle import oracle_rounds
from bench.selftest.simulated import simulate_study
from bench.spec import (
    Caps,
    Controls,
    DeviceSpec,
    Facts,
    ModelSpec,
    OptimizerSpec,
    ParallelismSpec,
    PlacementEntry,
    ProtocolSpec,
    RecipeSpec,
    StudySpec,
    WorkloadSpec,
    control_key,
)

COPY = "copy"
"""Name under which the plain placement is measured a second time."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All studies of one noise and one injected delay."""

    noise: str
    delay: float
    """Share by which each step of the copy is longer; 0 for A/A studies."""
    studies: int
    verdicts: Mapping[str, int]
    """Verdict → studies that came to it."""
    rounds: float
    """Mean number of rounds."""
    reasons: Mapping[str, int]
    """Why the rounds ended → studies."""
    oracle_rounds: int | None
    """Rounds that the oracle test needs; None for A/A, and where it needs too many."""

    def share(self, verdict: str) -> float:
        return self.verdicts.get(verdict, 0) / self.studies


def run_campaign(
    protocol: ProtocolSpec,
    caps: Caps,
    noises: Sequence[str],
    delays: Sequence[float],
    studies: int,
    seed: int,
    watch: Callable[[Cell], None],
) -> tuple[Cell, ...]:
    """`watch` sees each cell as it is done."""
    study = simulated_spec(protocol, caps)
    cells: list[Cell] = []
    for noise in noises:
        for delay in delays:
            cells.append(_cell(study, noise, delay, studies, seed + len(cells)))
            watch(cells[-1])
    return tuple(cells)


def _cell(study: StudySpec, noise: str, delay: float, studies: int, seed: int) -> Cell:
    generator = np.random.default_rng(seed)
    results = [simulate_study(study, {COPY: delay}, NOISES[noise], generator) for _ in range(studies)]
    return Cell(
        noise=noise,
        delay=delay,
        studies=studies,
        verdicts=Counter(result.verdicts[COPY].word for result in results),
        rounds=statistics.fmean(result.end.rounds for result in results),
        reasons=Counter(result.end.reason for result in results),
        oracle_rounds=oracle_rounds(NOISES[noise], delay, seed) if delay else None,
    )


def simulated_spec(protocol: ProtocolSpec, caps: Caps) -> StudySpec:
    """A study of `none` and its copy, on a machine that is only simulated."""
    controls = Controls(
        model=ModelSpec(name="simulated", target="bench.selftest"),
        workload=WorkloadSpec(micro_batch=1),
        optimizer=OptimizerSpec(),
        recipe=RecipeSpec(),
        precision="fp32",
        parallelism=ParallelismSpec(),
        device=DeviceSpec(kind="cpu"),
        protocol=protocol,
        facts=Facts(device_name="simulated clock", versions={}),
    )
    return StudySpec(
        name="selftest",
        key=control_key(controls),
        controls=controls,
        placements=tuple(PlacementEntry(text=name, id=name, generators=()) for name in (PLAIN, COPY)),
        chains=(),
        caps=caps,
    )
