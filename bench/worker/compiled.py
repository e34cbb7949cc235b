"""`python -m bench.worker.compiled`: solvers and budgets, as JSON on stdin; what they came to on stdout's last line.

Every variant is compiled and weighed, those that came to one program as one; then all programs are timed in turns with
the plain step, and audited last.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bench.records.compiled import (
    AOT_EAGER,
    BACKENDS,
    EAGER,
    INDUCTOR,
    SOLVERS,
    WHOLE,
    Choice,
    Compiled,
    CompiledRequest,
    Program,
)
from bench.spec import Controls, SpecError, to_mapping
from bench.worker.answering import answer_question
from bench.worker.bench import Bench
from bench.worker.compiled_audit import CompiledAudits
from bench.worker.compiled_measure import Runnable, attempt, time_in_rounds, weigh
from bench.worker.compiled_program import Partition, compile_model, many_variants
from bench.worker.setup import set_up_process
from bench.worker.warmup import MAX_SKIPPED_STEPS

COMPILE_CAP_S = 1800.0
"""After so long no further variant is compiled, and no further program audited: each is a row that says so."""
BREAK_LENGTH = 160
"""Characters of torch's reason for a graph break that a note repeats."""
TOO_LATE = f"not tried: {COMPILE_CAP_S / 60:g} minutes had gone by"


@dataclass(frozen=True, kw_only=True)
class Request:
    controls: Controls
    compiled: CompiledRequest
    time_cap_s: float | None = None
    """Of the rounds."""


def answer(request: Request) -> dict[str, Any]:
    """A `bench.records.Compiled`.

    Raises:
        SpecError: the request cannot be carried out as written.
    """
    began = time.monotonic()
    check_request(request.compiled)
    device = set_up_process(request.controls)
    bench = Bench(request.controls, device, ())
    with many_variants():
        found = _Compiling(request, bench).measured()
    told = to_mapping(dataclasses.replace(found, wall_s=round(time.monotonic() - began, 3)))
    del told["problem"]
    return {"compiled": told}


def check_request(asked: CompiledRequest) -> None:
    """Raises SpecError."""
    for name, values, allowed in (
        ("compiled", asked.solvers, SOLVERS),
        ("compiled_backend", (asked.backend,), (None, *BACKENDS)),
    ):
        unknown = [value for value in values if value not in allowed]
        if unknown:
            raise SpecError(f"{name}: {unknown[0]!r} is not one of {', '.join(filter(None, allowed))}")
    outside = [budget for budget in asked.budgets if not 0 <= budget <= 1]
    if outside:
        raise SpecError(f"compiled_budgets: expected shares from 0 to 1, got {outside[0]:g}")
    if not asked.solvers or not asked.budgets:
        raise SpecError("compiled: give at least one solver and one budget")


class _Compiling:
    def __init__(self, request: Request, bench: Bench) -> None:
        self._request, self._bench = request, bench
        self._backend = request.compiled.backend or (INDUCTOR if bench.device.type == "cuda" else AOT_EAGER)
        self._programs: dict[str, Program] = {}
        self._runnables: dict[str, Runnable] = {}
        self._graphs: dict[str, tuple[Partition, int]] = {}
        """Program → its partition, and how many graphs that had cut when the program had taken its first step."""
        self._notes: list[str] = []
        self._began = time.monotonic()

    def measured(self) -> Compiled:
        self._take_first_step()
        choices = self._choices()
        alive = [self._runnables[name] for name, program in self._programs.items() if program.outcome == "ok"]
        timed = None
        if self._programs[EAGER].outcome == "ok":
            timed = time_in_rounds(self._bench, alive, self._request.controls.protocol, self._request.time_cap_s)
            for name, (outcome, reason) in timed.failed.items():
                self._programs[name] = dataclasses.replace(self._programs[name], outcome=outcome, reason=reason)
        else:
            self._notes.append("no times: the plain step, which they would be relative to, could not be measured")
        self._note_graphs(choices)
        if self._request.compiled.audited:
            self._audit()
        return Compiled(
            request=self._request.compiled,
            backend=self._backend,
            choices=choices,
            programs=tuple(self._programs.values()),
            samples=tuple(timed.samples) if timed else (),
            stopped=timed.stopped if timed else None,
            notes=tuple(self._notes),
        )

    def _take_first_step(self) -> None:
        """Makes the optimizer's state, under the plain step or, where that fails, under the smallest budget."""
        eager = Runnable(name=EAGER)
        smallest = min(self._request.compiled.budgets)
        outcome, reason = attempt(self._bench, lambda: self._first_step(eager))
        if outcome != "ok":
            partition = Partition(smallest, self._request.compiled.solvers[0])
            compiled = compile_model(self._bench.step.model, partition, self._backend)
            attempt(self._bench, lambda: self._first_step(Runnable(name="first", compiled=compiled)))
        self._bench.keep_state()
        self._weigh(eager, outcome, reason)

    def _first_step(self, runnable: Runnable) -> None:
        step = self._bench.step
        with runnable.on(self._bench):
            for _ in range(MAX_SKIPPED_STEPS):
                step.run()
                if step.optimizer_steps:
                    break

    def _weigh(self, runnable: Runnable, outcome: str = "ok", reason: str = "", compile_s: float | None = None) -> None:
        found: dict[str, Any] = {}
        if outcome == "ok":
            outcome, reason = attempt(self._bench, lambda: found.update(weigh(self._bench, runnable)))
        program = Program(name=runnable.name, outcome=outcome, reason=reason, compile_s=compile_s, **found)
        self._programs[runnable.name], self._runnables[runnable.name] = program, runnable

    def _choices(self) -> tuple[Choice, ...]:
        """Every solver at every budget. At the ends torch asks no solver, so those are compiled once for all."""
        asked = self._request.compiled
        known: dict[tuple[float, str], Choice] = {}
        told = []
        for solver in asked.solvers:
            for budget in sorted({*asked.budgets, WHOLE}, reverse=True):
                key = budget, solver if 0 < budget < WHOLE else ""
                if key not in known:
                    known[key] = self._choice(budget, solver)
                told.append(dataclasses.replace(known[key], solver=solver))
        return tuple(told)

    def _choice(self, budget: float, solver: str) -> Choice:
        if self._is_late():
            return Choice(solver=solver, budget=budget, outcome="timeout", reason=TOO_LATE)
        bench = self._bench
        partition = Partition(budget, solver)
        compiled = compile_model(bench.step.model, partition, self._backend)
        runnable = Runnable(name="new", compiled=compiled)

        def step() -> None:
            bench.restore_state()
            with runnable.on(bench):
                bench.step.run()

        began = time.monotonic()
        outcome, reason = attempt(bench, step)
        compile_s = round(time.monotonic() - began, 3) if outcome == "ok" else None
        gc.collect()  # a compiler leaves cycles of graphs
        if outcome == "ok" and partition.graphs == 0:
            outcome, reason = "unsupported", "torch found nothing in the model's forward to compile"
        if outcome != "ok" and partition.graphs == 0:
            return Choice(solver=solver, budget=budget, outcome=outcome, reason=reason)
        choice = Choice(
            solver=solver,
            budget=budget,
            program=partition.digest,
            graphs=partition.graphs,
            estimated_saved_bytes=partition.saved_bytes,
            recomputed_ops=partition.recomputed_ops,
        )
        name = partition.digest
        if name not in self._programs:
            self._graphs[name] = partition, partition.graphs
            self._weigh(dataclasses.replace(runnable, name=name), outcome, reason, compile_s)
        return choice

    def _note_graphs(self, choices: Sequence[Choice]) -> None:
        cut = max((choice.graphs for choice in choices), default=0)
        breaks = [" ".join(reason.split())[:BREAK_LENGTH] for reason in torch._dynamo.utils.counters["graph_break"]]
        if cut > 1 or breaks:
            pieces = f"{cut} piece{'' if cut == 1 else 's'}"
            why = f": {breaks[0]}" if breaks else ""
            self._notes.append(
                f"the model's forward was compiled in {pieces}, each of which was given the budget; what lies between "
                f"runs as it is{why}"
            )
        again = [name for name, (partition, graphs) in self._graphs.items() if partition.graphs > graphs]
        if again:
            self._notes.append(
                f"compiled anew while they were measured, so their times are too long: {', '.join(again)}"
            )

    def _audit(self) -> None:
        is_limited = self._request.controls.device.memory_limit_bytes is not None
        audits = CompiledAudits(self._bench, self._backend, is_limited=is_limited)
        for name, program in self._programs.items():
            compiled = self._runnables[name].compiled
            if compiled is None or program.outcome != "ok":
                continue
            verdict, reason = ("unsupported", TOO_LATE) if self._is_late() else audits.verdict(name, compiled)
            self._programs[name] = dataclasses.replace(program, audit=verdict, audit_reason=reason)

    def _is_late(self) -> bool:
        return time.monotonic() - self._began > COMPILE_CAP_S


if __name__ == "__main__":
    raise SystemExit(answer_question(Request, answer, "the model cannot be compiled"))
