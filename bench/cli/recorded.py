"""What a study records beside its controls: which source measured it, and with which packages installed."""

from __future__ import annotations

import hashlib
import re
import subprocess
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).parents[2]
MEASURING = ("bench", "models", "conf")
"""Folders whose files take part in a measurement, even those that git does not know yet."""
GIT_TIMEOUT_S = 20


def recorded(source: Path = SOURCE) -> dict[str, str]:
    """`git_commit` of this source (with `-dirty` where files differ from it), `constraints_sha256` of the constraints
    file, and `packages_sha256` of the names and versions of all installed distributions. What is unknown is absent."""
    found = {
        "git_commit": _git_commit(source),
        "constraints_sha256": _constraints_hash(source),
        "packages_sha256": packages_hash(),
    }
    return {name: value for name, value in found.items() if value is not None}


def packages_hash() -> str:
    """Of sorted lines `name==version`, as `pip freeze` would name them, this project among them."""
    lines = {
        f"{re.sub(r'[-_.]+', '-', name).lower()}=={found.version}"
        for found in metadata.distributions()
        if (name := found.metadata["Name"])
    }
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _git_commit(source: Path) -> str | None:
    if not (source / ".git").exists():
        return None
    commit = _git(source, "rev-parse", "HEAD")
    changed = _git(source, "status", "--porcelain", "--untracked-files=no")
    added = _git(source, "ls-files", "--others", "--exclude-standard", "--", *MEASURING)
    return f"{commit}-dirty" if commit and (changed or added) else commit


def _git(source: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(source), *arguments], capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _constraints_hash(source: Path) -> str | None:
    path = source / "constraints.txt"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
