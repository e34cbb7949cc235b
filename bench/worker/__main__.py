"""`python -m bench.worker STUDY_DIR`: measures what one execution of the study still lacks, then ends.

Exit codes: 0 the execution is done or nothing was missing, 1 the worker gave up and says why on stderr, 2 the directory
is no study, or not one for this machine, 74 (EX_IOERR) the directory cannot be written to.

SIGUSR1 makes it write the Python stacks of its threads to stderr and go on; the parent asks for them before it ends a
silent worker. A native crash writes them too.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.records import DamagedStudyError
from bench.records.lock import StudyBusyError, study_lock
from bench.records.write import CannotWriteError
from bench.spec import SpecError
from bench.worker.journal import CannotRecordError
from bench.worker.setup import die_with_parent, set_up_process

if TYPE_CHECKING:
    from bench.worker.run import MakeBench, Measure

GAVE_UP, REFUSED, CANNOT_WRITE = 1, 2, os.EX_IOERR


def main(arguments: list[str], make_bench: MakeBench | None = None, measure: Measure | None = None) -> int:
    """`make_bench` and `measure` as in `run_execution`."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    if len(arguments) != 1:
        print("usage: python -m bench.worker STUDY_DIR", file=sys.stderr)
        return REFUSED
    die_with_parent()
    directory = Path(arguments[0])
    try:
        with study_lock(directory):
            from bench.worker.run import run_execution

            return run_execution(directory, set_up_process, make_bench, measure)
    except StudyBusyError as error:
        return _end(GAVE_UP, str(error))
    except (CannotRecordError, CannotWriteError) as error:
        return _end(CANNOT_WRITE, str(error))
    except (DamagedStudyError, SpecError) as error:
        return _end(REFUSED, str(error))
    except Exception as error:
        with suppress(OSError):
            traceback.print_exc()
        return _end(GAVE_UP, f"gave up: {type(error).__name__}: {error}")


def _end(code: int, message: str) -> int:
    """The parent takes the words from the log, whose disk may be as full as that of the records."""
    with suppress(OSError):
        print(f"bench.worker: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
