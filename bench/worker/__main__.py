"""`python -m bench.worker STUDY_DIR`: measures what one execution of the study still lacks, then ends.

Exit codes: 0 the execution is done or nothing was missing, 1 the worker gave up and says why on stderr, 2 the directory
is no study, or not one for this machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.records import DamagedStudyError
from bench.records.lock import StudyBusyError, study_lock
from bench.spec import SpecError
from bench.worker.setup import die_with_parent, set_up_process


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m bench.worker STUDY_DIR", file=sys.stderr)
        return 2
    die_with_parent()
    directory = Path(arguments[0])
    try:
        with study_lock(directory):
            from bench.worker.run import run_execution

            return run_execution(directory, set_up_process)
    except StudyBusyError as error:
        print(f"bench.worker: {error}", file=sys.stderr)
        return 1
    except (DamagedStudyError, SpecError) as error:
        print(f"bench.worker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
