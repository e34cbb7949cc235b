"""How a worker process ends of its own will: an exit code, and why as its last word on stderr, where the parent looks.

SIGUSR1 makes it write the Python stacks of its threads to stderr and go on; the parent asks for them before it ends a
silent worker. A native crash writes them too.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from bench.records import DamagedStudyError
from bench.records.lock import StudyBusyError
from bench.records.write import CannotWriteError
from bench.spec import SpecError
from bench.worker.journal import CannotRecordError
from bench.worker.setup import die_with_parent

GAVE_UP, REFUSED, CANNOT_WRITE = 1, 2, os.EX_IOERR


def run_to_its_end(work: Callable[[], int]) -> int:
    """Does what the process is there for; returns its exit code."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    die_with_parent()
    try:
        return work()
    except StudyBusyError as error:
        return end(GAVE_UP, str(error))
    except (CannotRecordError, CannotWriteError) as error:
        return end(CANNOT_WRITE, str(error))
    except (DamagedStudyError, SpecError) as error:
        return end(REFUSED, str(error))
    except Exception as error:
        with suppress(OSError):
            traceback.print_exc()
        return end(GAVE_UP, f"{type(error).__name__}: {error}")


def end(code: int, message: str) -> int:
    """The parent takes the words from the log, whose disk may be as full as that of the records."""
    with suppress(OSError):
        print(f"bench.worker: {' '.join(message.split())}", file=sys.stderr)
    return code
