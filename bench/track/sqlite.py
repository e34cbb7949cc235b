"""Publishing into a SQLite file without waiting for the disk at every one of its hundreds of transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from bench.track.errors import TrackError

if TYPE_CHECKING:
    import sqlalchemy

LOCAL_FILESYSTEMS = frozenset({"btrfs", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""A write-ahead log needs memory that all users of the file share, which a network file system does not have
(https://sqlite.org/wal.html)."""
MODE_WAIT_S = 1.0


@contextmanager
def one_use(engine: sqlalchemy.Engine, database: Path, *, only_reads: bool = False) -> Iterator[None]:
    """Connections of `engine` live as long as this use of `database`, and its transactions wait for no disk.

    MLflow keeps an engine for the life of the process. A connection that outlived its use, to a file that was deleted
    meanwhile, would take everything in and lose it; so all are closed, and a file that changed under them is told.

    While it lasts, unless it `only_reads`, the file keeps a write-ahead log that is brought to disk at the end: a loss
    of power may undo the last transactions, and never harms the file
    (https://sqlite.org/pragma.html#pragma_synchronous). What is undone is published again next time. MLflow's own way,
    four waits a transaction, takes a minute where the disk is busy.

    Raises:
        TrackError: the file was deleted or replaced meanwhile.
    """
    import sqlalchemy

    before = _file_id(database)
    engine.dispose()
    is_changed = (
        not only_reads and _on_local_disk(database) and _journal(database) == "delete" and _set_journal(database, "wal")
    )
    if is_changed:
        sqlalchemy.event.listen(engine, "connect", _no_wait)
    try:
        yield
    finally:
        engine.dispose()
        if is_changed:
            sqlalchemy.event.remove(engine, "connect", _no_wait)
            # A log that stayed would keep readers out who may not write into the folder. Another process that has the
            # file open keeps it: then it stays until a publishing that finds itself alone.
            _set_journal(database, "delete")
    if _file_id(database) != before:
        raise TrackError(f"{database} was deleted or replaced while it was written to")


def _no_wait(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")


def _journal(database: Path) -> str:
    return _pragma(database, "journal_mode")


def _set_journal(database: Path, mode: str) -> bool:
    return _pragma(database, f"journal_mode = {mode}") == mode


def _pragma(database: Path, pragma: str) -> str:
    """Its value in lower case; empty where the file is locked or gone."""
    try:
        address = f"file:{quote(str(database))}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=MODE_WAIT_S)) as connection:
            return str(connection.execute(f"PRAGMA {pragma}").fetchone()[0]).lower()
    except sqlite3.Error:
        return ""


def _on_local_disk(path: Path) -> bool:
    """Whether the innermost mount that holds `path` is of a kind known to be local; False where that is unknown."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    kinds = {}
    for mount in mounts:
        place, _, source = mount.partition(" - ")
        # Spaces in mount points are written as \040.
        kinds[place.split()[4].encode().decode("unicode_escape")] = source.split()[0]
    holders = [folder for folder in map(str, path.parents) if folder in kinds]
    return bool(holders) and kinds[holders[0]] in LOCAL_FILESYSTEMS


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino
