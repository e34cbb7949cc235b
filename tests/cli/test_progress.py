"""Progress on a terminal and without one."""

from __future__ import annotations

import io

from rich.console import Console

from bench.cli.progress import LABEL_WIDTH, ProgressDisplay, shorten, time_left
from bench.study import Progress


def event(done: int, message: str | None = None) -> Progress:
    return Progress(done=done, total=100, label="none [x]", seconds_left=90.0, message=message)


def test_without_a_terminal_a_line_is_printed_at_each_tenth_and_for_each_message() -> None:
    text = io.StringIO()
    with ProgressDisplay(Console(file=text, width=200)) as display:
        for done in range(100):
            display(event(done))
        display(event(99, message="transformer.h.0: oom [2 GiB]"))
    lines = text.getvalue().splitlines()
    assert lines[0] == "0/100  1:30 left  none [x]"
    assert lines[-1] == "transformer.h.0: oom [2 GiB]"
    assert len(lines) == 11


def test_without_a_terminal_a_line_is_printed_once_a_minute_where_tenths_take_longer() -> None:
    text, now = io.StringIO(), 0.0
    with ProgressDisplay(Console(file=text, width=200), clock=lambda: now) as display:
        for done in range(9):
            display(event(done))
            now += 30.0
    assert [line.split()[0] for line in text.getvalue().splitlines()] == ["0/100", "2/100", "4/100", "6/100", "8/100"]


def test_what_is_not_counted_is_told_once_and_hides_no_line_of_what_is() -> None:
    text = io.StringIO()
    with ProgressDisplay(Console(file=text, width=200)) as display:
        waiting = Progress(done=0, total=0, label="waiting", seconds_left=None, message="waiting for gpt2")
        display(waiting)
        display(Progress(done=0, total=0, label="forecasting", seconds_left=None))
        display(event(0))
    assert text.getvalue().splitlines() == ["waiting for gpt2", "forecasting", "0/100  1:30 left  none [x]"]


def test_on_a_terminal_messages_stay_and_the_bar_names_the_placement() -> None:
    text = io.StringIO()
    with ProgressDisplay(Console(file=text, width=120, force_terminal=True)) as display:
        display(event(10, message="a failure"))
        display(event(20))
    said = text.getvalue()
    assert "a failure" in said
    assert "none [x]" in said
    assert "20/100" in said
    assert "1:30 left" in said


def test_time_left_is_minutes_and_seconds() -> None:
    assert [time_left(s) for s in (None, -1.0, 0.4, 61.0, 3600.0)] == [
        "",
        "0:00 left",
        "0:00 left",
        "1:01 left",
        "60:00 left",
    ]


def test_a_long_placement_keeps_both_ends() -> None:
    label = "transformer.h.0..11:each:keep.attention.matmul%2@no-rng@reentrant"
    assert len(shorten(label)) <= LABEL_WIDTH
    assert shorten(label).startswith("transformer.h.0")
    assert shorten(label).endswith("@reentrant")
    assert shorten("none") == "none"
