"""Paths as a person would type them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def shown(path: Path) -> str:
    """Relative where it is below the current folder: shorter, and as a person would type it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def verbs() -> str:
    """What verbs are called by with the Python that runs now: `.venv/bin/python -m bench`."""
    return f"{shlex.quote(shown(Path(sys.executable)))} -m bench"
