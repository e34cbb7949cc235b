"""What a person may have meant by an option, or by a choice of one, that is not there."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Sequence
from typing import get_type_hints

from bench.cli.request import CONTROL_GROUPS
from bench.spec import Caps, Controls

OPTION_NAMES = (
    *CONTROL_GROUPS,
    *(
        "audit",
        "compiled",
        "compiled_backend",
        "compiled_budgets",
        "restore",
        "caps",
        "placements",
        "placement",
        "other",
        "reference",
        "forecast",
        "method",
        "target",
        "real",
        "budget",
        "count",
    ),
    *("trials", "steps", "tracker", "study", "port", "results", "out"),
    *("studies", "budgets", "fail_if", "name"),
    *("card", "context", "slowdown", "save", "format", "folder", "columns", "size"),
    *("limit", "headroom", "axis", "multiple", "keep", "largest", "evaluation", "multiples", "rounds", "time_cap_s"),
)
"""What an option at the top may be called, for those who mistyped one."""
FEW = 6
"""Choices that are all named."""


def hint_of(error: str) -> str | None:
    """Hydra's message for an unknown option or choice as one line with what was meant; None where it is another's."""
    option = re.match(r"Could not override '([\w.]+)'", error)
    if option:
        return f"{option[1]}: no such option{_meant(option[1], _option_paths())}"
    choice = re.search(r"Could not find '([^']*)/([^'/]*)'\s+Available options in '[^']*':([^:]*)", error)
    if choice:
        there = [line.strip() for line in choice[3].splitlines() if line.startswith("\t")]
        meant = "" if len(there) <= FEW else _meant(choice[2], there)
        return f"{choice[1].replace('/', '.')}: there is no {choice[2]}{meant or '; there are ' + ', '.join(there)}"
    return None


def _option_paths() -> list[str]:
    """Of every verb: at the top, and below the controls and caps (`caps.time_cap_s`)."""
    kinds = get_type_hints(Controls) | {"caps": Caps}
    groups = [group for group in (*CONTROL_GROUPS, "caps") if dataclasses.is_dataclass(kinds[group])]
    return [*OPTION_NAMES, *(f"{group}.{field.name}" for group in groups for field in dataclasses.fields(kinds[group]))]


def _meant(name: str, others: Sequence[str]) -> str:
    """`; did you mean caps.time_cap_s?` where a name is close, or the last part of one is."""
    # One of its own name is another verb's.
    paths = [other for other in others if other != name and ("." in other or "." not in name)]
    close = difflib.get_close_matches(name, paths, n=2)
    if not close:
        by_last = {path.rpartition(".")[2]: path for path in paths}
        close = [by_last[last] for last in difflib.get_close_matches(name.rpartition(".")[2], by_last, n=2)]
    return f"; did you mean {' or '.join(close)}?" if close else ""
