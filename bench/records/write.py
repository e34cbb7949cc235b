"""Writing to a study directory so that a failure leaves what was there: files are replaced whole, lines appended whole.

A disk fills up, a quota ends, somebody deletes the file that is being written to: each is told with the file, the
reason and what to do, and no half line stays behind.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

GOES_ON = "what was measured stays, and the same command goes on from there"
ELSEWHERE = "or measure into another folder (results=FOLDER)"
REMEDIES = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room within the quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: f"make the folder writable, {ELSEWHERE}",
    errno.EACCES: f"make the folder writable, {ELSEWHERE}",
    errno.EPERM: f"make the folder writable, {ELSEWHERE}",
    errno.EISDIR: f"move away the folder that has this name, {ELSEWHERE}",
    errno.ENOTDIR: f"move away the file that stands where a folder should be, {ELSEWHERE}",
    errno.EEXIST: f"move away the file that stands where a folder should be, {ELSEWHERE}",
}


class CannotWriteError(OSError):
    """A study directory that cannot be written to. `filename` is the file, `strerror` why and what to do."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def cannot_write(path: Path, error: OSError) -> CannotWriteError:
    remedy = REMEDIES.get(error.errno or 0, "see to the folder")
    why = f"cannot be written ({error.strerror or error}); {remedy}; {GOES_ON}"
    return CannotWriteError(error.errno, why, str(path))


def make_directory(directory: Path) -> None:
    """Raises CannotWriteError where it is not there and cannot be made."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(directory, error) from error


def write_json(path: Path, data: Any) -> None:
    """Replaces `path` as a whole: a reader, or a crash, sees the old file or the new one.

    Raises:
        CannotWriteError: the old file is still there as it was.
    """
    text = json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    replace_text(path, text)


def replace_text(path: Path, text: str) -> None:
    """Raises CannotWriteError, the old file unharmed."""
    _replace_bytes(path, text.encode())


def _replace_bytes(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise cannot_write(path, error) from error


class LineWriter:
    """Appends whole lines to a file and flushes them to disk. What cannot be appended whole is taken back."""

    def __init__(self, path: Path) -> None:
        """Raises CannotWriteError."""
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            raise cannot_write(path, error) from error
        self._end = os.fstat(self._file).st_size
        if self._end and os.pread(self._file, 1, self._end - 1) != b"\n":
            self.append(b"\n")  # a line torn by a kill stays, and the next one is its own

    def append(self, lines: bytes) -> None:
        """
        Raises:
            CannotWriteError: nothing of `lines` is in the file. Where the file was deleted meanwhile, it has been put
                back with them, and the error says so.
        """
        self._check_still_there(lines)
        try:
            left = memoryview(lines)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise cannot_write(self._path, error) from error
        self._end += len(lines)

    def close(self) -> None:
        os.close(self._file)

    def _check_still_there(self, lines: bytes) -> None:
        """Appending to an open file that has lost its name succeeds, and is lost."""
        mine = os.fstat(self._file)
        try:
            named = self._path.stat()
        except FileNotFoundError:
            named = None
        except OSError as error:
            raise cannot_write(self._path, error) from error
        if named is None and mine.st_nlink == 0:
            _replace_bytes(self._path, self._whole() + lines)
            raise self._disturbed(f"was deleted while it was written to; it has been put back whole, and {GOES_ON}")
        if named is None or (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
            raise self._disturbed("was moved or replaced while it was written to; put it back, or measure again")
        if mine.st_size < self._end:
            lost = self._end - mine.st_size
            raise self._disturbed(
                f"was cut by {lost} bytes while it was written to; restore it from a copy, or run the same command, "
                "which measures again what it no longer has"
            )

    def _whole(self) -> bytes:
        parts: list[bytes] = []
        position = 0
        while part := os.pread(self._file, 1 << 20, position):
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def _disturbed(self, why: str) -> CannotWriteError:
        return CannotWriteError(errno.ESTALE, why, str(self._path))
