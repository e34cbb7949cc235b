"""Small readers of `/proc` and `/sys`. What cannot be read is None or empty, never an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

CGROUP = "sys/fs/cgroup"


def read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def read_line(path: Path) -> str | None:
    """The first line, or None where there is none."""
    lines = read_lines(path)
    return lines[0].strip() if lines else None


def read_number(path: Path) -> int | None:
    try:
        return int(read_line(path) or "")
    except ValueError:
        return None


def read_switch(path: Path) -> str | None:
    number = read_number(path)
    return None if number is None else ("on" if number else "off")


def read_choice(path: Path) -> str | None:
    """`madvise` of `always [madvise] never`."""
    found = re.search(r"\[(\S+)\]", read_line(path) or "")
    return found.group(1) if found else None


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Of lines `name : value`."""
    for line in read_lines(path):
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def cgroup_folders(root: Path, controller: str = "") -> list[Path]:
    """Folders of the cgroup of this process and of all around it, the innermost first.

    Args:
        root: `/`, or a tree with the same files.
        controller: of cgroup v1; the empty one is v2.
    """
    for line in read_lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            top = root / CGROUP / controller
            inner = top / path.lstrip("/")
            folders = [inner, *inner.parents]
            return folders[: folders.index(top) + 1] if top in folders else [top]
    return []
