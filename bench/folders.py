"""Where the top-level folders `models/` and `conf/` are: in the clone, or inside the package of an install."""

from __future__ import annotations

from pathlib import Path

INSTALLED = "installed"
"""A wheel keeps both below `bench/installed/` (`package-dir` in pyproject.toml), so that `bench` alone lies at the top
of somebody's site-packages, where their own `models` and `conf` may be."""


def root() -> Path:
    """The folder that holds `models/` and `conf/`."""
    installed = Path(__file__).parent / INSTALLED
    return installed if installed.is_dir() else Path(__file__).parents[1]
