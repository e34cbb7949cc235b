"""Where tables go: to a terminal as wide as it is, to a pipe or a file as plain text of a fixed width."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType

DEFAULT_WIDTH = 120
"""Columns where there is no terminal."""


def show(renderable: RenderableType) -> None:
    """On standard output."""
    if sys.stdout.isatty():
        Console().print(renderable)
    else:
        sys.stdout.write(plain_text(renderable))


def plain_text(renderable: RenderableType, width: int = DEFAULT_WIDTH) -> str:
    """Without colours, and without a trailing blank in any line."""
    console = Console(width=width, color_system=None, force_terminal=False, highlight=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable)
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())
