"""`python -m bench.worker STUDY_DIR`: measures what one execution of the study still lacks, then ends.

Exit codes: 0 the execution is done or nothing was missing, 1 the worker gave up and says why on stderr, 2 the directory
is no study, or not one for this machine, 74 (EX_IOERR) the directory cannot be written to.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.records.lock import study_lock
from bench.worker.ending import REFUSED, run_to_its_end
from bench.worker.setup import set_up_process

if TYPE_CHECKING:
    from bench.worker.run import MakeBench, Measure


def main(arguments: list[str], make_bench: MakeBench | None = None, measure: Measure | None = None) -> int:
    """`make_bench` and `measure` as in `run_execution`."""
    if len(arguments) != 1:
        print("usage: python -m bench.worker STUDY_DIR", file=sys.stderr)
        return REFUSED
    directory = Path(arguments[0])

    def work() -> int:
        with study_lock(directory):
            from bench.worker.run import run_execution

            return run_execution(directory, set_up_process, make_bench, measure)

    return run_to_its_end(work)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
