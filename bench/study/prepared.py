"""`python -m bench.study.prepared FILE [RESULTS]`: a study from one JSON file, on a machine without Hydra and MLflow.

The file holds `controls` (without facts, which the device tells), `placements` (as in `conf/placements`), `caps`, and
`audit` and `restore` where they are not `gate` and `auto`. The study directory that comes out is like any other: bring
it back and `python -m bench publish study=…`.
With `against` (`bench.study.against_forecast.Against`) what was measured is held against a forecast made elsewhere.

Exit codes: 0 every placement was measured, 1 some were not, 2 the file or the device is wrong.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.placement import check_modules, check_ops, generate_placements
from bench.records import OutcomeRecord, read_records
from bench.spec import (
    AUTO,
    GATE,
    Caps,
    Controls,
    SpecError,
    StudySpec,
    control_key,
    from_mapping,
    validate_caps,
    validate_controls,
)
from bench.study.against_forecast import Against, compare_with_forecast, read_forecast_rows
from bench.study.probe import probe_worker
from bench.study.progress import Progress
from bench.study.run import run_study
from bench.study.supervise import WorkerError


def run_prepared(prepared: Path, results: Path) -> Path:
    """Raises SpecError where the file is wrong or the device is not the one it names; see `run_study` for the rest."""
    try:
        data: dict[str, Any] = json.loads(prepared.read_text(encoding="utf-8"))
        controls_data, placements = data["controls"], data["placements"]
    except (OSError, ValueError, KeyError) as error:
        raise SpecError(f"{prepared}: no prepared study ({error!r}); it needs controls, placements and caps") from None
    controls = from_mapping(Controls, controls_data)
    validate_controls(controls)
    probe = probe_worker(controls)
    controls = dataclasses.replace(controls, facts=probe.facts)
    entries = generate_placements(placements, probe.chains)
    check_modules(entries, probe.modules)
    check_ops(entries, probe.ops)
    study = StudySpec(
        name=controls.model.name,
        key=control_key(controls),
        controls=controls,
        placements=entries,
        chains=probe.chains,
        caps=from_mapping(Caps, data.get("caps", {}), "caps"),
        audit=data.get("audit", GATE),
        restore=data.get("restore", AUTO),
    )
    validate_caps(study.caps)
    against = from_mapping(Against, data["against"], "against") if "against" in data else None
    rows = read_forecast_rows(against, prepared, study) if against else {}
    directory = run_study(study, results, watch=_print)
    if against:
        for line in compare_with_forecast(directory, against, rows, _print):
            print(line, flush=True)
    return directory


def _print(event: Progress) -> None:
    left = "" if event.seconds_left is None else f", {event.seconds_left:.0f} s left"
    print(event.message or f"{event.done}/{event.total}{left}: {event.label}", flush=True)


def main(arguments: list[str]) -> int:
    return run_file("bench.study.prepared", arguments, run_prepared, _tell)


def run_file(module: str, arguments: list[str], run: Callable[[Path, Path], Path], tell: Callable[[Path], int]) -> int:
    """`python -m MODULE FILE [RESULTS]`; returns the exit code.

    Args:
        run: of the file and the results folder makes a directory; raises SpecError or WorkerError.
        tell: prints what came out, and returns the exit code for it.
    """
    if len(arguments) not in (1, 2):
        print(f"usage: python -m {module} FILE [RESULTS]", file=sys.stderr)
        return 2
    try:
        directory = run(Path(arguments[0]), Path(arguments[1] if len(arguments) == 2 else "results"))
    except SpecError as error:
        print(f"{module}: {error}", file=sys.stderr)
        return 2
    except WorkerError as error:
        print(f"{module}: {error}", file=sys.stderr)
        return 1
    return tell(directory)


def _tell(directory: Path) -> int:
    failed = {record.placement for record in read_records(directory).of(OutcomeRecord)}
    print(f"{directory}: measured" + (f", {len(failed)} placements are not scored" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
