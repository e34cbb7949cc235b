"""Progress of a study on the terminal: a bar with the time left, or a line now and then where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn

from bench.study import Progress

LABEL_WIDTH = 40
LINES_WITHOUT_TERMINAL = 10
LINE_EVERY_S = 60.0
"""Without a terminal a line is printed at each tenth of the work, and after this time at the latest."""


class ProgressDisplay:
    """Shows `Progress` events; messages stay on the screen above the bar, so that a failure is seen at once."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None, left="")
        self._lines = -1
        self._clock = clock
        self._printed = clock()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: Progress) -> None:
        if event.message:
            self._console.print(escape(event.message))
        if self._console.is_terminal:
            self._bar.update(
                self._task,
                description=shorten(event.label),
                completed=event.done,
                total=event.total,
                left=time_left(event.seconds_left),
            )
        else:
            self._print_line(event)

    def _print_line(self, event: Progress) -> None:
        if not event.total:  # nothing to count yet; a message says more than the label
            if not event.message:
                self._console.print(escape(event.label))
            return
        line = LINES_WITHOUT_TERMINAL * event.done // event.total
        now = self._clock()
        if line > self._lines or now - self._printed >= LINE_EVERY_S:
            self._lines, self._printed = line, now
            parts = (f"{event.done}/{event.total}", time_left(event.seconds_left), event.label)
            self._console.print(escape("  ".join(part for part in parts if part)))


def time_left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes}:{rest:02d} left"


def shorten(label: str) -> str:
    """Keeps both ends: a placement's last characters tell it from its neighbours as much as its first."""
    if len(label) <= LABEL_WIDTH:
        return label
    half = (LABEL_WIDTH - 1) // 2
    return f"{label[:half]}…{label[-half:]}"
