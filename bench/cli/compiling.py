"""The options `compiled`, `compiled_budgets` and `compiled_backend` of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.records.compiled import BACKENDS, SOLVERS, CompiledRequest
from bench.spec import SpecError, StudySpec
from bench.study.compiling import compile_study
from bench.study.progress import Watch

OPTIONS = ("compiled", "compiled_budgets", "compiled_backend")


def compiled_request(options: dict[str, Any]) -> CompiledRequest:
    """Raises SpecError for an option that is not what it should be."""
    solvers, budgets, backend = (options[name] for name in OPTIONS)
    solvers = solvers if isinstance(solvers, list) else [solvers]
    unknown = [solver for solver in solvers if solver not in SOLVERS]
    if unknown:
        raise SpecError(f"compiled: {unknown[0]!r} is not one of {', '.join(SOLVERS)}")
    if not isinstance(budgets, list) or not budgets or not all(map(_is_share, budgets)):
        raise SpecError(f"compiled_budgets: expected a list of shares from 0 to 1, got {budgets!r}")
    if backend is not None and backend not in BACKENDS:
        raise SpecError(f"compiled_backend: {backend!r} is not one of {', '.join(BACKENDS)}")
    return CompiledRequest(
        solvers=tuple(dict.fromkeys(solvers)),
        budgets=tuple(sorted({float(budget) for budget in budgets}, reverse=True)),
        backend=backend,
    )


def compile_beside(directory: Path, study: StudySpec, request: CompiledRequest, watch: Watch) -> None:
    """Measures what was asked for, where it is not there yet."""
    compile_study(directory, study, request.solvers, watch, budgets=request.budgets, backend=request.backend)


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
