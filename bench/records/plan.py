"""Plans of a study's model: `plan.json` in its directory, what was asked for and what it is expected to take.

They stand beside the records and are not the truth: where the file is absent or damaged, a study has no plans.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.records.beside import read_beside, write_beside

PLAN_FILE = "plan.json"
SCHEMA_VERSION = 1
MEASURED, ROOFLINE, COUNTED = "measured", "roofline", "counted"
"""Where times come from. MEASURED: the real step's ops. ROOFLINE: a data sheet's rates. COUNTED: FLOPs and bytes at
nominal rates; such costs rank placements, and are no times."""


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What is to be planned."""

    count: int = 0
    """Placements of the planned frontier."""
    budgets: tuple[str, ...] = ()
    """Further ones to plan for: bytes (`8GiB`), or shares of what can move (`50%`)."""
    peers: tuple[str, ...] = ()
    """Names of peers, or `all`."""
    peer_budgets: tuple[str, ...] = ()
    """What peers that plan under a budget are given."""
    match_peers: bool = False
    """Plan for the peak of each peer's placement as well."""

    @property
    def asks_for_any(self) -> bool:
        return bool(self.count or self.budgets or self.peers)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a planned placement, or a peer's, is expected to take."""

    placement: str
    label: str
    """`planned (1,200 MiB)`, `rotor (1,200 MiB)`."""
    peak_allocated_bytes: int
    """Forecast."""
    replay_ms: float | None
    """By how much its step is expected to take longer than the plain one; None where it could not be worked out."""
    step_ms: float | None = None
    """The plain step as it was taken for `replay_ms`; None where it is that of the Plans."""
    bound_ms: float | None = None
    """No choice among the planner's options within its budget is expected to cost less."""
    budget_bytes: int | None = None
    peer: str | None = None
    """Name of the system whose method it is; None for a plan of ours."""
    is_installable: bool | None = None
    """Whether people can install that system, or its method is re-created from a paper; None for a plan of ours."""
    round: int = 1
    """1 before anything was measured; 2 where what was measured has corrected the costs."""


@dataclass(frozen=True, kw_only=True)
class Plans:
    """All that a study's `plan.json` says."""

    request: PlanRequest | None = None
    rows: tuple[Plan, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """Budget or peer → why there is no placement for it."""
    persistent_bytes: int | None = None
    floor_bytes: int | None = None
    """The least peak that a placement reaches."""
    plain_bytes: int | None = None
    step_ms: float | None = None
    """The plain step, as the planner takes it."""
    cost_source: str = ""
    """MEASURED, ROOFLINE or COUNTED."""
    rounds: int = 1
    """Of planning; in the second the planner knows what was measured."""
    notes: tuple[str, ...] = ()
    problem: str | None = None
    """Why the file could not be read; such plans are empty. Never written."""

    @property
    def expected(self) -> Mapping[str, Plan]:
        """Placement → what was expected of it first: what is said later knows what was measured."""
        return {row.placement: row for row in reversed(self.rows)}

    def joined(self, later: Plans) -> Plans:
        """With what a later round, or another study of the same controls, planned; all else is the first's."""
        if self.request is None:
            return dataclasses.replace(later, problem=self.problem or later.problem)
        return dataclasses.replace(
            self,
            rows=(*self.rows, *(row for row in later.rows if row not in self.rows)),
            missing={**self.missing, **later.missing},
            rounds=max(self.rounds, later.rounds),
            notes=tuple(dict.fromkeys((*self.notes, *later.notes))),
            problem=self.problem or later.problem,
        )


def read_plans(directory: Path) -> Plans:
    """Of an absent file none; of one that cannot be read none, with the problem."""
    return read_beside(directory / PLAN_FILE, Plans, SCHEMA_VERSION)


def write_plans(directory: Path, plans: Plans) -> None:
    """Raises CannotWriteError, an older file unharmed."""
    write_beside(directory / PLAN_FILE, plans, SCHEMA_VERSION)
