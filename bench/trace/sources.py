"""The line of a model's code that called an op."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

import torch

from bench.trace.log import NOWHERE

_TORCH = str(Path(torch.__file__).parent)
_BENCH = str(Path(__file__).parents[1])
_STANDARD = ("contextlib.py", "functools.py")


class SourceLines:
    """Lines of code outside torch and the harness, each numbered once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[tuple[CodeType, int], int] = {}
        self._skipped: dict[str, bool] = {}

    def here(self) -> int:
        """Number of the innermost such line that is running, or NOWHERE."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            path = code.co_filename
            skip = self._skipped.get(path)
            if skip is None:
                skip = self._skipped[path] = _is_skipped(path)
            if not skip:
                place = (code, frame.f_lineno)
                if place not in self._numbers:
                    self._numbers[place] = len(self.lines)
                    self.lines.append(f"{_shown(path)}:{frame.f_lineno} {code.co_name}")
                return self._numbers[place]
            frame = frame.f_back
        return NOWHERE


def _is_skipped(path: str) -> bool:
    inside = path.startswith(_BENCH) and not path.startswith(f"{_BENCH}/installed")
    return inside or path.startswith((_TORCH, "<")) or Path(path).name in _STANDARD


def _shown(path: str) -> str:
    """Without the folder that it is imported from, so that no path of a machine stands in a log."""
    roots = [entry.rstrip("/") + "/" for entry in sys.path if entry and path.startswith(entry.rstrip("/") + "/")]
    root = max(roots, key=len, default="")
    return path[len(root) :] if root else Path(path).name
