"""`selftest`: is the protocol honest? On simulated clocks, and with `real.run=true` on this machine."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.progress import ProgressDisplay
from bench.cli.recorded import recorded
from bench.cli.request import CONTROL_GROUPS, caps_of, controls_of, refuse_unknown
from bench.records import read_records
from bench.selftest.campaign import Cell, run_campaign
from bench.selftest.claims import Claim, check_claims
from bench.selftest.noise import NOISES
from bench.selftest.real import WORKER, Load, RealResult, real_results, real_study
from bench.spec import Caps, Controls, ProtocolSpec, SpecError, from_mapping, to_mapping
from bench.stats.verdict import SAME_MARGIN_PER_TARGET, VERDICTS
from bench.study import Progress, WorkerError, probe_worker, run_study

OPTIONS = (*CONTROL_GROUPS, "caps", "placements", "results", "simulated", "real")


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The options `simulated`."""

    studies: int
    noises: tuple[str, ...]
    delays: tuple[float, ...]
    target_half_width: float
    rounds_min: int
    rounds_max: int
    capped_rounds: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Real:
    """The options `real`."""

    run: bool
    copies: int
    delays: tuple[float, ...]
    rounds: int
    load: bool


def run(overrides: Sequence[str]) -> int:
    return run_verb("selftest", selftest, overrides)


def selftest(options: Options) -> Answer:
    refuse_unknown(options, OPTIONS)
    simulated = from_mapping(Simulated, options["simulated"], "simulated")
    real = from_mapping(Real, options["real"], "real")
    _check(simulated, real)
    controls = controls_of(options)
    caps = caps_of(options)
    console = Console()
    answer: dict[str, Any] = {}
    holds = True
    if simulated.studies:
        cells, claims = _simulate(simulated, console)
        answer["simulated"] = {"cells": to_mapping(cells), "claims": to_mapping(claims)}
        holds = all(claim.holds for claim in claims)
    if real.run:
        try:
            answer["real"] = _really(controls, caps, real, options["results"], console)
        except WorkerError as error:
            print(f"boundary-bench: {error}", file=sys.stderr)
            return Answer(exit_code=PARTIAL, data=answer | {"error": str(error)})
    return Answer(exit_code=COMPLETE if holds else PARTIAL, data=answer)


def _check(simulated: Simulated, real: Real) -> None:
    for noise in simulated.noises:
        if noise not in NOISES:
            raise SpecError(f"simulated.noises: no noise {noise!r}; there are {', '.join(NOISES)}")
    if simulated.studies < 0 or not 0 < simulated.rounds_min <= simulated.rounds_max:
        raise SpecError("simulated: studies must be at least 0, and 0 < rounds_min <= rounds_max")
    if min((*simulated.delays, *real.delays), default=0.0) < 0:
        raise SpecError("delays: a delay is a share of the step, at least 0")
    if real.run and (real.rounds < 1 or real.copies + len(real.delays) < 1):
        raise SpecError("real: at least one round, and one copy or delay, are needed")


def _simulate(options: Simulated, console: Console) -> tuple[tuple[Cell, ...], tuple[Claim, ...]]:
    protocol = ProtocolSpec(
        rounds_min=options.rounds_min,
        rounds_max=options.rounds_max,
        target_half_width=options.target_half_width,
    )
    began = time.monotonic()
    table = _cells_table(options)
    resolution = SAME_MARGIN_PER_TARGET * options.target_half_width
    cells = run_campaign(
        protocol, Caps(), options.noises, options.delays, options.studies, options.seed, lambda cell: _row(table, cell)
    )
    table.add_section()
    short = dataclasses.replace(protocol, rounds_min=options.capped_rounds, rounds_max=options.capped_rounds)
    capped = run_campaign(
        short, Caps(), options.noises, [resolution], options.studies, options.seed, lambda cell: _row(table, cell)
    )
    console.print(table)
    claims = check_claims(cells, capped, resolution)
    for claim in claims:
        console.print(f"{'✓' if claim.holds else '✗'} {claim.text}: {claim.figure}", highlight=False)
    took = time.monotonic() - began
    console.print(f"\n{options.studies * (len(cells) + len(capped)):,} studies in {took:.0f} s", highlight=False)
    return (*cells, *capped), claims


def _cells_table(options: Simulated) -> Table:
    table = Table(
        title=f"simulated studies to ± {100 * options.target_half_width:g} %, {options.studies} each; "
        f"below the line cut short at {options.capped_rounds} rounds",
        title_justify="left",
        box=None,
    )
    table.add_column("noise")
    for name in ("delay", *VERDICTS, "rounds", "oracle's"):
        table.add_column(name, justify="right")
    return table


def _row(table: Table, cell: Cell) -> None:
    shares = [f"{100 * cell.share(verdict):.1f} %" for verdict in VERDICTS]
    oracle = str(cell.oracle_rounds) if cell.oracle_rounds else ("–" if not cell.delay else "> 1000")
    table.add_row(cell.noise, f"{100 * cell.delay:g} %", *shares, f"{cell.rounds:.1f}", oracle)


def _really(controls: Controls, caps: Caps, options: Real, results: Path, console: Console) -> dict[str, Any]:
    probe = probe_worker(controls)
    controls = dataclasses.replace(controls, facts=probe.facts)
    study = real_study(controls, options.copies, options.delays, options.rounds, caps, recorded(), options.load)
    with ProgressDisplay() as display, Load() as load:

        def watch(event: Progress) -> None:
            display(event)
            if options.load and event.done >= event.total / 2:
                load.start()

        directory = run_study(study, results, watch, worker=WORKER)
    found, drift = real_results(study, read_records(directory))
    console.print(_real_table(found, options))
    if drift:
        console.print(f"the study drifted: the sentinel's step time changed its level by {drift:.0%}", highlight=False)
    else:
        console.print("the sentinel did not drift" if drift == 0 else "too few rounds to see drift", highlight=False)
    console.print(f"\nstudy: {directory}", highlight=False, soft_wrap=True)
    return {"study": str(directory), "results": to_mapping(found), "drift": drift}


def _real_table(results: Sequence[RealResult], options: Real) -> Table:
    load = ", the second half with another process on one core" if options.load else ""
    table = Table(
        title=f"the plain step under other names, {options.rounds} rounds{load}", title_justify="left", box=None
    )
    table.add_column("name")
    table.add_column("time ratio", justify="right")
    table.add_column("95 %", justify="right")
    table.add_column("verdict")
    for result in results:
        interval = f"{result.low:.4f} to {result.high:.4f}"
        table.add_row(result.name, f"{result.ratio:.4f}", interval, f"{result.verdict} ({result.reason})")
    return table
