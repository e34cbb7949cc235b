"""What `measure` hands back: the study's folder, and what its records amount to."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from bench.frontier import Frontier


@dataclass(frozen=True, kw_only=True)
class OwnStudy:
    directory: Path
    frontier: Frontier

    @property
    def knee(self) -> str | None:
        """The placement at the frontier's knee; None where it has none."""
        return self.frontier.knee

    @property
    def winner(self) -> str:
        """The knee; where the frontier is too short to have one, its point of least memory; `none` where there is no
        frontier."""
        return self.knee or (self.frontier.frontier[-1] if self.frontier.frontier else "none")

    def table(self) -> str:
        """The frontier as text, as `sweep` prints it. Needs rich."""
        from bench.report import write_table

        text = io.StringIO()
        write_table(self.frontier, text)
        return text.getvalue()
