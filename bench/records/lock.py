"""One writer a study directory."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = ".lock"


class StudyBusyError(RuntimeError):
    """Another worker is writing to the study."""


@contextmanager
def study_lock(directory: Path) -> Iterator[None]:
    """Held while a worker writes; the kernel lets go of it however the worker ends.

    Raises:
        StudyBusyError: another worker holds it, or the directory cannot be written to.
    """
    try:
        file = (directory / LOCK_FILE).open("w")
    except OSError as error:
        raise StudyBusyError(f"{directory}: cannot be written to ({error.strerror})") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyBusyError(f"{directory}: another worker is measuring this study; wait for it to end") from None
        yield
