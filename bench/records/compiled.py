"""Steps compiled under torch's `activation_memory_budget`: `compiled.json` in a study's directory.

A budget of compiled code is no placement, so these are no points of the study; they stand beside them. Where the file
is absent or damaged, nothing was compiled.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from bench.records.beside import read_beside, write_beside

COMPILED_FILE = "compiled.json"
SCHEMA_VERSION = 1
SOLVERS = ("dp", "greedy", "ilp")
"""Of `torch._functorch.config.activation_memory_budget_solver`."""
BUDGETS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
WHOLE = 1.0
"""The budget at which torch recomputes only what it takes for free."""
AOT_EAGER, INDUCTOR = "aot_eager_decomp_partition", "inductor"
BACKENDS = (AOT_EAGER, INDUCTOR)
EAGER = "eager"
"""Name of the program that is the plain step, not compiled."""


@dataclass(frozen=True, kw_only=True)
class CompiledRequest:
    """What is to be compiled and measured."""

    solvers: tuple[str, ...] = ()
    """Of SOLVERS."""
    budgets: tuple[float, ...] = BUDGETS
    """Shares, from 0 to 1, of the activations that are saved at budget 1; that one is measured in any case."""
    backend: str | None = None
    """One of BACKENDS; None takes AOT_EAGER on a CPU and INDUCTOR on a GPU."""
    audited: bool = True
    """Whether the programs are audited."""

    def covers(self, other: CompiledRequest) -> bool:
        """Whether all that `other` asks for is asked for here, in the same way."""
        return (
            set(self.solvers) >= set(other.solvers)
            and set(self.budgets) >= set(other.budgets)
            and self.backend == other.backend
            and self.audited >= other.audited
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What torch made of one budget and one solver."""

    solver: str
    budget: float
    """Asked for."""
    program: str | None = None
    """Name of the program; choices that came to the same one share its measurements. None where there is none."""
    graphs: int = 0
    """Into which the forward was cut. Each is given the budget by itself."""
    estimated_saved_bytes: int | None = None
    """Of tensors that the forward makes and the backward reads, as torch's partitioner sizes them."""
    recomputed_ops: int | None = None
    """Ops of the forward that the backward runs again."""
    outcome: str = "ok"
    """Of compiling alone; what became of the program is said there."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One pair of forward and backward code, measured; or the plain step. What was not measured is None."""

    name: str
    """EAGER, or the beginning of a digest of its graphs."""
    outcome: str
    reason: str = ""
    compile_s: float | None = None
    """Wall seconds of its first step, which compiles it."""
    peak_allocated_bytes: int | None = None
    persistent_bytes: int | None = None
    retained_bytes: int | None = None
    """Allocated by the last forward and still there when its backward begins."""
    peak_phase: str | None = None
    peak_reserved_bytes: int | None = None
    losses: tuple[float | None, ...] = ()
    """Of the two steps of its memory pass, which starts where that of every other did."""
    audit: str | None = None
    """Outcome of the audit; None where there was none."""
    audit_reason: str = ""

    @property
    def standing(self) -> tuple[str, str]:
        """(outcome, reason) with the audit taken in: `ok` may stand on a frontier."""
        if self.outcome != "ok" or self.audit in (None, "valid", "valid-within-tolerance"):
            return self.outcome, self.reason
        return ("unsupported" if self.audit == "unsupported" else "invalid"), self.audit_reason


@dataclass(frozen=True, kw_only=True)
class StepSample:
    """One program in one round."""

    program: str
    round: int
    position: int
    """In the shuffled round."""
    step_times_ms: tuple[float, ...]

    @property
    def time_ms(self) -> float:
        return statistics.median(self.step_times_ms)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """All that a study's `compiled.json` says."""

    request: CompiledRequest | None = None
    backend: str = ""
    """That was taken."""
    choices: tuple[Choice, ...] = ()
    programs: tuple[Program, ...] = ()
    samples: tuple[StepSample, ...] = ()
    stopped: str | None = None
    """Why the rounds ended."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader must know."""
    wall_s: float | None = None
    problem: str | None = None
    """Why the file could not be read; then nothing is told. Never written."""


def read_compiled(directory: Path) -> Compiled:
    """Of an absent file nothing; of one that cannot be read nothing, with the problem."""
    return read_beside(directory / COMPILED_FILE, Compiled, SCHEMA_VERSION, "the next sweep that asks for it")


def write_compiled(directory: Path, compiled: Compiled) -> None:
    """Raises CannotWriteError, an older file unharmed."""
    write_beside(directory / COMPILED_FILE, compiled, SCHEMA_VERSION)
