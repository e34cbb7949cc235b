"""Steps compiled under a memory budget, asked of a process of its own, beside a study that is measured."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from bench.records import CannotWriteError, make_directory
from bench.records.compiled import BUDGETS, Compiled, CompiledRequest, read_compiled, write_compiled
from bench.spec import GATE, Controls, SpecError, StudySpec, to_mapping
from bench.study.ask import ask_process
from bench.study.device_lock import hold_device
from bench.study.progress import Progress, Watch
from bench.study.supervise import WorkerError

TIMEOUT_S = 7200.0
LABEL = "compiling under memory budgets"


@dataclass(frozen=True, kw_only=True)
class CompiledAnswer:
    """What `bench.worker.compiled` answers."""

    compiled: Compiled


def ask_compiled(
    controls: Controls,
    solvers: tuple[str, ...],
    budgets: tuple[float, ...] = BUDGETS,
    *,
    backend: str | None = None,
    audited: bool = True,
    time_cap_s: float | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Compiled:
    """It measures on the device, which the caller holds (`hold_device`).

    Args:
        solvers: of `bench.records.compiled.SOLVERS`.
        budgets: shares from 0 to 1; 1 is measured in any case.
        backend: as in `CompiledRequest`.
        audited: whether the programs are audited.
        time_cap_s: of the timed rounds.

    Raises:
        SpecError: the request cannot be carried out as written, or the model cannot be compiled at all.
        WorkerError: the process broke, or gave no answer in time.
    """
    request = CompiledRequest(solvers=solvers, budgets=budgets, backend=backend, audited=audited)
    question = {"controls": to_mapping(controls), "compiled": to_mapping(request), "time_cap_s": time_cap_s}
    module, what = "bench.worker.compiled", "the compiled step"
    return ask_process(module, question, controls, CompiledAnswer, what=what, timeout_s=timeout_s).compiled


def compile_study(
    directory: Path,
    study: StudySpec,
    solvers: tuple[str, ...],
    watch: Watch,
    *,
    budgets: tuple[float, ...] = BUDGETS,
    backend: str | None = None,
) -> Compiled:
    """What the study's `compiled.json` says, where all that is asked for is in it; else it is measured, with all that
    was in it before, so that every ratio comes from rounds of one process. Audited where the study's placements are.

    It stands beside what is measured, so nothing that fails in it ends a study: that is told, and noted in the file, so
    that it is not tried again each time.

    Raises:
        WorkerError: another study holds the device for too long.
    """
    asked = CompiledRequest(solvers=solvers, budgets=budgets, backend=backend, audited=study.audit == GATE)
    if not solvers or _is_there(there := read_compiled(directory), asked):
        return read_compiled(directory)
    _tell(watch)
    with hold_device(study.controls, directory.name, watch):
        if _is_there(there := read_compiled(directory), asked):  # another sweep had the device before
            return there
        found = _asked(study, _joined(there.request, asked), watch)
    try:
        make_directory(directory)
        write_compiled(directory, found)
    except CannotWriteError as error:
        _tell(watch, str(error))
    return found


def _is_there(there: Compiled, asked: CompiledRequest) -> bool:
    return there.request is not None and there.request.covers(asked)


def _joined(there: CompiledRequest | None, asked: CompiledRequest) -> CompiledRequest:
    if there is None or there.backend != asked.backend:
        return asked
    return dataclasses.replace(
        asked,
        solvers=tuple(dict.fromkeys((*there.solvers, *asked.solvers))),
        budgets=tuple(sorted({*there.budgets, *asked.budgets}, reverse=True)),
    )


def _asked(study: StudySpec, request: CompiledRequest, watch: Watch) -> Compiled:
    try:
        found = ask_compiled(
            study.controls,
            request.solvers,
            request.budgets,
            backend=request.backend,
            audited=request.audited,
            time_cap_s=study.caps.time_cap_s,
        )
    except (SpecError, WorkerError) as error:
        found = Compiled(request=request, notes=(f"nothing was compiled: {' '.join(str(error).split())}",))
    for note in found.notes:
        _tell(watch, note)
    return found


def _tell(watch: Watch, message: str | None = None) -> None:
    watch(Progress(done=0, total=0, label=LABEL, seconds_left=None, message=message))
