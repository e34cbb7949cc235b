"""The choice of options as a mixed-integer program, solved by HiGHS.

    minimise    Σ cost[o] z[o] + policy[o] p[o] − Σ saved[o,k] y[o,k]
    such that   Σ_{o covers a} z[o] ≤ 1                                           for every atom a
                y[o,k] ≤ p[o] ≤ z[o]                                              for what may be kept in o
                Σ_{v in i} v − (members − 1) ≤ w[i] ≤ v                           for every member v of an interplay i
                plain[t] + Σ change[o][t] z[o] + Σ change[o,k][t] y[o,k] + Σ change[i][t] w[i] ≤ budget
                                                                                  for every moment t

with z: an option is taken, p: it has a policy, y: it keeps that output, all binary; w: all members of an interplay are
taken, which their bounds make 0 or 1. There are thousands of moments and few that bind, so rows are added as they are
violated. The least peak that can be reached is the same program with the peak as a variable to be minimised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog, milp
from scipy.sparse import csr_matrix, hstack, vstack

from bench.placement.types import Placement, Region
from bench.plan.moments import Change, Line
from bench.plan.options import Option

GAP = 5e-3
"""Between what is found and what is proved, as a share of the cost, at which the solver stops."""
GRAIN = 1e-3
"""Likewise, as a share of the plain step: less than can be measured."""
PEAK_GRAIN = 5e-4
"""Likewise where the least peak is asked for, as a share of the plain peak."""
FLOOR_GAP = 0.02
"""Between the least peak that is found and what is proved, as a share of the plain peak, at which the search stops."""
TIME_LIMIT_S = 3.0
FIRST_SLACK = 0.04
"""How much dearer than the relaxed optimum a choice may make the program to stand in the first one in whole numbers, as
a share of that, and beyond the grain. The second one has all that could make its answer cheaper."""
MOST_CHOICES = (3000, 9000)
"""That stand in each, the cheapest by the relaxed program's prices."""
FRACTION, ROUNDING_BYTES = 1e-6, 1 << 12
"""Values of the relaxed program, and bytes over its budget, that are taken for nothing."""
MAX_ROUNDS = 60
MIB = 1 << 20
TIE_MS = 1e-6
"""What a MiB of peak weighs against time where the least peak is asked for: of equal peaks, the cheapest."""


Values = npt.NDArray[np.float64]
Taken = tuple[int, tuple[int, ...]]
"""(number of an option, numbers of what it keeps)."""
Member = tuple[int, int | None]
"""(number of an option, number of one that it keeps or None for the option itself)."""


@dataclass(frozen=True, eq=False)
class Interplay:
    """What several choices change together, beyond what each changes alone."""

    members: tuple[Member, ...]
    change: Change


@dataclass(frozen=True, kw_only=True)
class Choice:
    taken: tuple[Taken, ...]
    regions: tuple[Region, ...]
    line: Line
    """What the program takes memory to be at each moment."""
    cost_ms: float
    bound_ms: float
    """No choice of these options costs less that is within the budget by this program's sums."""

    @property
    def placement(self) -> Placement:
        return Placement(self.regions)


def members_of(taken: Sequence[Taken]) -> tuple[Member, ...]:
    """Each option, followed by what it keeps."""
    return tuple(member for o, keeps in taken for member in ((o, None), *((o, k) for k in keeps)))


class Program:
    def __init__(self, plain: Line, options: Sequence[Option], *, step_ms: float) -> None:
        """
        Args:
            step_ms: of the plain step.
        """
        self._plain = plain
        self._step_ms = step_ms
        self._options = options
        self._keeps = [(o, k) for o, option in enumerate(options) for k in range(len(option.keeps))]
        self._with_policy = [o for o, option in enumerate(options) if option.keeps and option.policy_ms > 0]
        self._first_policy = len(options)
        self._first_keep = self._first_policy + len(self._with_policy)
        self._first_interplay = self._first_keep + len(self._keeps)
        self._number_of: dict[Member, int] = {(o, None): o for o in range(len(options))}
        self._number_of |= {keep: self._first_keep + n for n, keep in enumerate(self._keeps)}
        self._interplays: list[Interplay] = []
        self._most = np.ones(self._first_interplay)
        self._changes: list[Change | None] = [option.change for option in options]
        self._changes += [None] * len(self._with_policy)
        self._changes += [options[o].keeps[k].change for o, k in self._keeps]
        self._choice_costs = np.array(
            [option.cost_ms for option in options]
            + [options[o].policy_ms for o in self._with_policy]
            + [-options[o].keeps[k].saved_ms for o, k in self._keeps]
        )
        self._rows: dict[int, list[float]] = {}
        self._structure, self._structure_most = self._structure_rows()
        self._add_row(int(plain.argmax()))

    def add(self, interplays: Sequence[Interplay]) -> None:
        self._interplays += interplays
        self._changes += [interplay.change for interplay in interplays]
        for moment, row in self._rows.items():
            row += [interplay.change.at(moment) / MIB for interplay in interplays]
        self._structure, self._structure_most = self._structure_rows()

    def forbid(self, option: int) -> None:
        """The model refuses its regions."""
        self._most[option] = 0.0

    def forbid_together(self, choice: Choice) -> None:
        """All that is taken in it, at once."""
        line = np.full_like(self._plain, self._plain.max())
        self.add([Interplay(members_of(choice.taken), Change.between(line - line, line))])

    def alike(self, option: int, *, apart_from: int) -> list[int]:
        """Options that cover part of the same modules and none of another's, the most alike first."""
        mine, its = self._options[option].atoms, self._options[apart_from].atoms
        found = [
            o
            for o, other in enumerate(self._options)
            if o != option and other.atoms & mine and not other.atoms & its and self._most[o]
        ]
        return sorted(found, key=lambda o: len(self._options[o].atoms ^ mine))

    def within(self, budget_bytes: int, *, thorough: bool = True) -> Choice | None:
        """The cheapest choice whose peak is at most the budget, or None where there is none.

        Args:
            thorough: look among more than the likeliest options where those are not proved to hold the cheapest.
        """
        if self._plain.max() <= budget_bytes:
            return self._nothing()
        if not self._options:
            return None
        for _ in range(MAX_ROUNDS):
            solved = self._solved(budget_bytes, thorough=thorough)
            if solved is None:
                return None
            choice = self._choice(*solved)
            if not self._add_violated(choice.line, budget_bytes):
                return choice
        return None

    def least_peak(self) -> Choice:
        """The choice of the least peak that the solver finds."""
        choice, bound = self._nothing(), 0.0
        if not self._options:
            return choice
        for _ in range(MAX_ROUNDS):
            solved = self._solved(None, thorough=False)
            if solved is None:  # no time left
                break
            choice, bound = self._choice(solved[0], 0.0), solved[1] * MIB
            if not self._add_violated(choice.line, int(choice.line.max()) - 1):
                break
        # A large program has its cheapest choice sooner than its lowest.
        while choice.line.max() - bound > FLOOR_GAP * self._plain.max():
            middle = int(choice.line.max() + bound) // 2
            lower = self.within(middle, thorough=False)
            if lower is None:
                bound = middle
            else:
                choice = lower
        return choice

    def line(self, taken: Sequence[Taken]) -> Line:
        """What memory is taken to be at each moment."""
        members = set(members_of(taken))
        line = self._plain.copy()
        for change in (
            *(self._changes[self._number_of[member]] for member in members),
            *(interplay.change for interplay in self._interplays if members.issuperset(interplay.members)),
        ):
            assert change is not None, "policies change nothing by themselves"
            change.add_to(line)
        return line

    def regions(self, taken: Sequence[Taken]) -> tuple[Region, ...]:
        return tuple(
            region
            for o, keeps in taken
            for region in self._options[o].keeping([self._options[o].keeps[k] for k in keeps])
        )

    def _nothing(self) -> Choice:
        return self._choice(np.zeros(len(self._changes)), 0.0)

    def _choice(self, x: Values, bound: float) -> Choice:
        kept: dict[int, list[int]] = {}
        for (o, k), value in zip(self._keeps, x[self._first_keep : self._first_interplay], strict=True):
            if value > 0.5:
                kept.setdefault(o, []).append(k)
        options = [int(o) for o in np.flatnonzero(x[: self._first_policy] > 0.5)]
        taken = tuple((o, tuple(kept.get(o, ()))) for o in options)
        chosen = [self._number_of[o, k] for o, keeps in taken for k in (None, *keeps)]
        chosen += [self._first_policy + n for n, o in enumerate(self._with_policy) if kept.get(o)]
        return Choice(
            taken=taken,
            regions=self.regions(taken),
            line=self.line(taken),
            cost_ms=float(self._choice_costs[chosen].sum()),
            bound_ms=bound,
        )

    def _add_row(self, moment: int) -> None:
        if moment not in self._rows:
            self._rows[moment] = [0.0 if change is None else change.at(moment) / MIB for change in self._changes]

    def _add_violated(self, line: Line | Values, most_bytes: int) -> bool:
        """The highest moment of each stretch that is over it; False where the program has them all."""
        over = np.flatnonzero(line > most_bytes)
        stretches = np.split(over, 1 + np.flatnonzero(np.diff(over) > 1)) if len(over) else []
        tops = sorted((int(stretch[line[stretch].argmax()]) for stretch in stretches), key=lambda m: -int(line[m]))
        new = [moment for moment in tops[:16] if moment not in self._rows]
        for moment in new:
            self._add_row(moment)
        return bool(new)

    def _structure_rows(self) -> tuple[csr_matrix, Values]:
        covers: dict[str, list[int]] = {}
        for o, option in enumerate(self._options):
            for atom in option.atoms:
                covers.setdefault(atom, []).append(o)
        rows: list[tuple[list[int], list[float], float]] = [
            (list(options), [1.0] * len(options), 1.0)
            for options in dict.fromkeys(tuple(options) for options in covers.values())
        ]
        policy_of = {o: self._first_policy + n for n, o in enumerate(self._with_policy)}
        below = [(policy, o) for o, policy in policy_of.items()]
        below += [(self._number_of[o, k], policy_of.get(o, o)) for o, k in self._keeps]
        for n, interplay in enumerate(self._interplays, start=self._first_interplay):
            members = [self._number_of[member] for member in interplay.members]
            rows.append(([*members, n], [1.0] * len(members) + [-1.0], len(members) - 1.0))
            below += [(n, member) for member in members]
        rows += [([low, high], [1.0, -1.0], 0.0) for low, high in below]
        numbers = np.repeat(np.arange(len(rows)), [len(columns) for columns, _, _ in rows])
        columns = np.array([column for columns, _, _ in rows for column in columns], dtype=np.int64)
        values = np.array([value for _, values, _ in rows for value in values])
        matrix = csr_matrix((values, (numbers, columns)), shape=(len(rows), len(self._changes)))
        return matrix, np.array([most for _, _, most in rows])

    def _solved(self, budget_bytes: int | None, *, thorough: bool) -> tuple[Values, float] | None:
        """(values, bound of the objective). The relaxed program comes first: what it prices far above its optimum is
        left out of the one in whole numbers, which so becomes small."""
        relaxed = self._relaxed(budget_bytes)
        if relaxed is None:
            return None
        costs, constraints, most = self._stated(budget_bytes)
        if budget_bytes is None:
            grain, scale = PEAK_GRAIN * int(self._plain.max()) / MIB, 0.0
        else:
            grain, scale = GRAIN * self._step_ms, relaxed.fun
        # What is found then costs the grain more than the relaxed optimum at most, however little that is.
        gap = grain / (abs(relaxed.fun) + grain)
        gap = min(max(gap, GAP) if budget_bytes is not None else gap, 1.0)
        prices = relaxed.lower.marginals
        best: Values | None = None
        bound, dearer = float(relaxed.fun), FIRST_SLACK * abs(scale) + grain
        for most_choices in MOST_CHOICES if thorough else MOST_CHOICES[:1]:
            chosen = prices[: self._first_interplay]
            dearer = min(
                dearer, np.partition(chosen, most_choices)[most_choices] if most_choices < len(chosen) else np.inf
            )
            near = prices <= dearer
            near[self._first_interplay :] = True
            found = milp(
                costs[near],
                constraints=LinearConstraint(constraints.A[:, near], -np.inf, constraints.ub),
                integrality=np.isfinite(most[near]).astype(int),
                bounds=Bounds(0, most[near]),
                options={"mip_rel_gap": gap, "time_limit": TIME_LIMIT_S},
            )
            if found.x is not None and (best is None or found.fun < costs @ best):
                best = np.zeros(len(most))
                best[near] = found.x
            # A choice with anything that was left out is dearer than the relaxed optimum by at least that much.
            proved = found.mip_dual_bound if found.mip_dual_bound is not None else relaxed.fun
            bound = max(bound, min(proved, relaxed.fun + dearer))
            needed = np.inf if best is None else costs @ best - relaxed.fun
            if near.all() or needed <= max(dearer, gap * abs(relaxed.fun)):
                break
            dearer = needed
        if best is None:
            return None
        return best[: len(self._changes)], float(bound)

    def _relaxed(self, budget_bytes: int | None) -> OptimizeResult | None:
        """The program without whole numbers, with all rows that bind it."""
        for _ in range(MAX_ROUNDS):
            costs, constraints, most = self._stated(budget_bytes)
            relaxed = linprog(
                costs,
                A_ub=constraints.A,
                b_ub=constraints.ub,
                bounds=np.column_stack([np.zeros(len(most)), most]),
                method="highs",
            )
            if relaxed.x is None:
                return None
            line = self._plain.astype(np.float64)
            for number in np.flatnonzero(relaxed.x[: len(self._changes)] > FRACTION):
                change = self._changes[number]
                if change is not None:
                    line += relaxed.x[number] * change.line(len(line))
            most_bytes = budget_bytes if budget_bytes is not None else int(relaxed.fun * MIB)
            if not self._add_violated(line, most_bytes + ROUNDING_BYTES):
                break
        return relaxed

    def _stated(self, budget_bytes: int | None) -> tuple[Values, LinearConstraint, Values]:
        """(objective, rows, upper bounds of the variables); without a budget the last variable is the peak in MiB."""
        moments = list(self._rows)
        memory = csr_matrix(np.array([self._rows[m] for m in moments]))
        plain = np.array([int(self._plain[m]) / MIB for m in moments])
        added = np.zeros(len(self._interplays))
        costs, most = np.concatenate([self._choice_costs, added]), np.concatenate([self._most, added + 1])
        structure = self._structure
        if budget_bytes is None:
            structure = hstack([structure, csr_matrix((structure.shape[0], 1))])
            memory = hstack([memory, csr_matrix(-np.ones((len(moments), 1)))])
            costs, most = np.concatenate([costs * TIE_MS, [1.0]]), np.concatenate([most, [np.inf]])
        upper = -plain if budget_bytes is None else budget_bytes / MIB - plain
        matrix = vstack([structure, memory]).tocsc()
        return costs, LinearConstraint(matrix, -np.inf, np.concatenate([self._structure_most, upper])), most
