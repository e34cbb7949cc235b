"""What a study records beside its controls: which source measured it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parents[2]
GIT_TIMEOUT_S = 20


def recorded() -> dict[str, str]:
    """Git commit of this source (with `-dirty` where files differ from it) and a hash of the constraints file."""
    found = {"git_commit": _git_commit(), "constraints_sha256": _constraints_hash()}
    return {name: value for name, value in found.items() if value is not None}


def _git_commit() -> str | None:
    if not (SOURCE / ".git").exists():
        return None
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if commit and changes else commit


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(SOURCE), *arguments], capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _constraints_hash() -> str | None:
    path = SOURCE / "constraints.txt"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
