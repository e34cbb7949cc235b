"""Finds the stored capacity directory that `study=` names."""

from __future__ import annotations

from pathlib import Path

from bench.capacity.store import is_capacity
from bench.spec import SpecError

MARK = "-capacity"
"""In the name of every such directory."""


def find_capacity(name: str | None, results: Path) -> Path | None:
    """The capacity directory that is meant: a folder, a name under `results`, or the unique beginning of one that says
    `-capacity`. None where `name` means no capacity: a study is then looked for.

    Raises:
        SpecError: several begin so.
    """
    if name is None:
        return None
    for folder in (Path(name).expanduser(), results / name):
        if is_capacity(folder):
            return folder.resolve()
    if MARK not in name or not results.is_dir():
        return None
    matches = sorted(path for path in results.iterdir() if path.name.startswith(name) and is_capacity(path))
    if len(matches) > 1:
        raise SpecError(f"study: {name!r} may be {', '.join(path.name for path in matches)}; say which")
    return matches[0].resolve() if matches else None
