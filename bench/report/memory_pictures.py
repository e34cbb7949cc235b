"""Writes all pictures of a step's memory."""

from __future__ import annotations

from pathlib import Path

from bench.trace.log import StepLog


def write_memory_pictures(folder: Path, log: StepLog, *, name: str, other: StepLog | None = None) -> list[Path]:
    """Writes NAME.png, .svg, .html and .snapshot.pickle into `folder`, and with `other` NAME-overlay.png and .svg.

    Args:
        log: of one step.
        name: of the files, without ending.
        other: what it is compared with, as the plain step of the same model. The page holds both.

    Returns:
        The files' paths.
    """
    # Here, so that a verb that prints does not wait for matplotlib.
    from bench.report.memory_html import write_memory_html
    from bench.report.memory_overlay import memory_overlay
    from bench.report.memory_snapshot import write_memory_snapshot
    from bench.report.memory_timeline import memory_timeline
    from bench.report.page import save

    paths = save(memory_timeline(log), folder, name)
    paths.append(write_memory_html(folder / f"{name}.html", log, other=other))
    paths.append(write_memory_snapshot(folder / f"{name}.snapshot.pickle", log))
    if other is not None:
        paths += save(memory_overlay(log, other), folder, f"{name}-overlay")
    return paths
