"""`python -m bench.study.capacity_prepared FILE [RESULTS]`: a capacity search from one JSON file, on a machine without
Hydra and MLflow.

The file holds a `bench.study.capacity_request.CapacityRequest`. The directory that comes out is like any other: bring
it back and `python -m bench publish study=…`.

Exit codes: 0 the answer is there, 1 part of it is missing, 2 the file or the device is wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.capacity.store import read_answer
from bench.spec import SpecError, from_mapping
from bench.study.capacity import run_capacity
from bench.study.capacity_request import CapacityRequest, resolved
from bench.study.prepared import run_file
from bench.study.progress import Progress


def run_prepared(prepared: Path, results: Path) -> Path:
    """Raises SpecError where the file is wrong or the device is not the one it names; see `run_capacity`."""
    try:
        data = json.loads(prepared.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{prepared}: no prepared search ({error})") from None
    return run_capacity(resolved(from_mapping(CapacityRequest, data)), results, watch=_print)


def _print(event: Progress) -> None:
    count = f"{event.done}/{event.total}: " if event.total else ""
    print(event.message or f"{count}{event.label}", flush=True)


def main(arguments: list[str]) -> int:
    return run_file("bench.study.capacity_prepared", arguments, run_prepared, _tell)


def _tell(directory: Path) -> int:
    answer = read_answer(directory)
    for line in (*answer.findings, *answer.notes):
        print(line)
    print(directory)
    return 0 if answer.is_complete else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
