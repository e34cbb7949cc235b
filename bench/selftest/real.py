"""A self-test on the machine itself: the plain step under several names, some with a delay, in a real study."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.frontier.series import ratio_steadiness, reference_drift, unsteady_text
from bench.records import PLAIN, Records, kept_samples
from bench.spec import Caps, Controls, PlacementEntry, StudySpec, control_key
from bench.stats import estimate_paired, judge, paired_ratios

WORKER = "bench.worker.selftest"
"""Module of the worker that runs such a study."""
BURN = "import os\nwhile os.getppid() == {parent}:\n    sum(range(100000))\n"


@dataclass(frozen=True, kw_only=True)
class RealResult:
    name: str
    """`copy.N` or `delay.P.N`."""
    ratio: float
    low: float
    high: float
    verdict: str
    reason: str


def real_study(
    controls: Controls,
    copies: int,
    delays: Sequence[float],
    rounds: int,
    caps: Caps,
    recorded: Mapping[str, str],
    load: bool = False,
) -> StudySpec:
    """`none`, its copies and its delayed copies, measured in `rounds` rounds, or fewer within the caps. Its name says
    whether there was `load`, so that the two never share a directory."""
    protocol = dataclasses.replace(
        controls.protocol, rounds_min=rounds, rounds_max=rounds, executions=1, process="shared"
    )
    controls = dataclasses.replace(controls, protocol=protocol)
    names = [PLAIN, *(f"copy.{n}" for n in range(copies)), *(f"delay.{100 * d:g}.{n}" for n, d in enumerate(delays))]
    return StudySpec(
        name=f"selftest-{'load-' if load else ''}{controls.model.name}",
        key=control_key(controls),
        controls=controls,
        placements=tuple(PlacementEntry(text=name, id=name, generators=("selftest",)) for name in names),
        chains=(),
        caps=caps,
        recorded=recorded,
    )


def real_results(study: StudySpec, records: Records) -> tuple[tuple[RealResult, ...], float | None]:
    """Each name against `none`, and the sentinel's drift as a share."""
    target = study.controls.protocol.target_half_width
    results = []
    for name, ratios in paired_ratios(kept_samples(records), PLAIN).items():
        estimate = estimate_paired(ratios) if name != PLAIN else None
        if estimate is not None and estimate.interval is not None:
            verdict = judge(estimate, target, unsteady_text(ratio_steadiness(ratios, target)))
            low, high = estimate.interval
            results.append(
                RealResult(
                    name=name, ratio=estimate.ratio, low=low, high=high, verdict=verdict.word, reason=verdict.reason
                )
            )
    order = [entry.text for entry in study.placements]
    results.sort(key=lambda result: order.index(result.name))
    return tuple(results), reference_drift(study, records, PLAIN)


class Load:
    """Another process that keeps one core busy, from `start` to the end of the `with` block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen([sys.executable, "-c", BURN.format(parent=os.getpid())])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
