"""Paths as a person would type them."""

from __future__ import annotations

from pathlib import Path


def shown(path: Path) -> str:
    """Relative where it is below the current folder: shorter, and as a person would type it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
