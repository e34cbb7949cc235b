"""The choice of options as a mixed-integer program, solved by HiGHS.

    minimise    Σ cost[o] z[o] + policy[o] p[o] − Σ saved[o,k] y[o,k]
    such that   Σ_{o covers a} z[o] ≤ 1                                           for every atom a
                y[o,k] ≤ p[o] ≤ z[o]                                              for what may be kept in o
                plain[t] + Σ change[o][t] z[o] + Σ change[o,k][t] y[o,k] ≤ budget  for every moment t

with z: an option is taken, p: it has a policy, y: it keeps that output; all binary. There are thousands of moments and
few that bind, so rows are added as they are violated. The least peak that can be reached is the same program with the
peak as a variable to be minimised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix, hstack, vstack

from bench.placement.types import Placement, Region
from bench.plan.moments import Change, Line
from bench.plan.options import Option

GAP = 2e-3
"""Between what is found and what is proved, as a share of the cost, at which the solver stops."""
GRAIN = 1e-3
"""Likewise, as a share of the plain step: less than can be measured."""
TIME_LIMIT_S = 5.0
SLACKS = (0.04, 0.4, np.inf)
"""How much dearer than the relaxed optimum a choice may make the program to stand in the one in whole numbers, as a
share of that, and beyond GRAIN of the plain step; the next one where that leaves none."""
MAX_ROUNDS = 60
MIB = 1 << 20
TIE_MS = 1e-6
"""What a MiB of peak weighs against time where the least peak is asked for: of equal peaks, the cheapest."""


Values = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Choice:
    regions: tuple[Region, ...]
    line: Line
    """What the program takes memory to be at each moment."""
    cost_ms: float
    bound_ms: float
    """No choice of these options within the budget costs less."""

    @property
    def placement(self) -> Placement:
        return Placement(self.regions)


class Program:
    def __init__(self, plain: Line, options: Sequence[Option], *, step_ms: float) -> None:
        """
        Args:
            step_ms: of the plain step.
        """
        self._plain = plain
        self._step_ms = step_ms
        self._options = options
        self._keeps = [(o, keep) for o, option in enumerate(options) for keep in option.keeps]
        self._with_policy = [o for o, option in enumerate(options) if option.keeps]
        self._changes: list[Change] = [o.change for o in options] + [keep.change for _, keep in self._keeps]
        num_options, num_policies = len(options), len(self._with_policy)
        self._first_policy, self._first_keep = num_options, num_options + num_policies
        self._num = self._first_keep + len(self._keeps)
        self._costs = np.array(
            [option.cost_ms for option in options]
            + [options[o].policy_ms for o in self._with_policy]
            + [-keep.saved_ms for _, keep in self._keeps]
        )
        self._structure, self._structure_most = self._structure_rows()
        self._corrections: dict[int, int] = {}
        self._rows: dict[int, Values] = {}
        self._add_row(int(plain.argmax()))

    def correct(self, moment: int, extra_bytes: int) -> None:
        """An exact forecast found that many bytes more at a moment than the sum of changes."""
        self._corrections[moment] = max(extra_bytes, self._corrections.get(moment, 0))
        self._add_row(moment)

    def within(self, budget_bytes: int) -> Choice | None:
        """The cheapest choice whose peak is at most the budget, or None where there is none."""
        for _ in range(MAX_ROUNDS):
            solved = self._solved(budget_bytes)
            if solved is None:
                return None
            choice = self._choice(*solved)
            if not self._add_violated(choice.line, budget_bytes):
                return choice
        return None

    def least_peak(self) -> Choice:
        for _ in range(MAX_ROUNDS):
            solved = self._solved(None)
            assert solved is not None, "taking no option is always possible"
            choice = self._choice(*solved)
            if not self._add_violated(choice.line, int(solved[1] * MIB) + 1):
                break
        return choice

    def _choice(self, x: Values, bound: float) -> Choice:
        chosen = [int(v) for v in np.flatnonzero(x[: self._num] > 0.5)]
        kept: dict[int, list[int]] = {}
        for v in chosen:
            if v >= self._first_keep:
                kept.setdefault(self._keeps[v - self._first_keep][0], []).append(v - self._first_keep)
        line = self._plain.copy()
        for v in chosen:
            if not self._first_policy <= v < self._first_keep:
                index = v if v < self._first_policy else v - self._first_keep + len(self._options)
                line += self._changes[index].line(len(line))
        for moment, extra in self._corrections.items():
            line[moment] += extra
        regions = [
            region
            for v in chosen
            if v < self._first_policy
            for region in self._options[v].keeping([self._keeps[k][1] for k in kept.get(v, ())])
        ]
        return Choice(regions=tuple(regions), line=line, cost_ms=float(self._costs[chosen].sum()), bound_ms=bound)

    def _add_row(self, moment: int) -> None:
        if moment not in self._rows:
            row = np.array([change.at(moment) / MIB for change in self._changes])
            policies = np.zeros(len(self._with_policy))
            self._rows[moment] = np.concatenate([row[: self._first_policy], policies, row[self._first_policy :]])

    def _add_violated(self, line: Line, most_bytes: int) -> bool:
        """The highest moment of each stretch that is over it; False where the program has them all."""
        over = np.flatnonzero(line > most_bytes)
        stretches = np.split(over, 1 + np.flatnonzero(np.diff(over) > 1)) if len(over) else []
        tops = sorted((int(stretch[line[stretch].argmax()]) for stretch in stretches), key=lambda m: -int(line[m]))
        new = [moment for moment in tops[:16] if moment not in self._rows]
        for moment in new:
            self._add_row(moment)
        return bool(new)

    def _structure_rows(self) -> tuple[csr_matrix, Values]:
        atoms = {a: n for n, a in enumerate(sorted({a for option in self._options for a in option.atoms}))}
        entries = [(atoms[a], o, 1.0) for o, option in enumerate(self._options) for a in option.atoms]
        most = [1.0] * len(atoms)
        policy_of = {o: self._first_policy + n for n, o in enumerate(self._with_policy)}
        pairs = [(policy, o) for o, policy in policy_of.items()]
        pairs += [(self._first_keep + n, policy_of[o]) for n, (o, _) in enumerate(self._keeps)]
        for low, high in pairs:
            entries += [(len(most), low, 1.0), (len(most), high, -1.0)]
            most.append(0.0)
        rows, columns, values = (np.array(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
        return csr_matrix((values, (rows, columns)), shape=(len(most), self._num)), np.array(most)

    def _solved(self, budget_bytes: int | None) -> tuple[Values, float] | None:
        """(values, bound of the objective). The relaxed program comes first: what it prices far above its optimum is
        left out of the one in whole numbers, which so becomes small."""
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
        grain = GRAIN * self._step_ms
        gap = max(GAP, min(grain / max(relaxed.fun, grain), 1.0)) if budget_bytes is not None else 0.0
        for slack in SLACKS:
            near = relaxed.lower.marginals <= slack * abs(relaxed.fun) + grain
            near[self._num :] = True
            found = milp(
                costs,
                constraints=constraints,
                integrality=np.isfinite(most).astype(int),
                bounds=Bounds(0, np.where(near, most, 0)),
                options={"mip_rel_gap": gap, "time_limit": TIME_LIMIT_S},
            )
            if found.x is not None:
                bound = relaxed.fun if budget_bytes is not None else found.x[-1]
                return found.x, float(bound)
        return None

    def _stated(self, budget_bytes: int | None) -> tuple[Values, LinearConstraint, Values]:
        """(objective, rows, upper bounds of the variables); without a budget the last variable is the peak in MiB."""
        moments = list(self._rows)
        memory = csr_matrix(np.array([self._rows[m] for m in moments]))
        plain = np.array([(int(self._plain[m]) + self._corrections.get(m, 0)) / MIB for m in moments])
        costs, most, structure = self._costs, np.ones(self._num), self._structure
        if budget_bytes is None:
            structure = hstack([structure, csr_matrix((structure.shape[0], 1))])
            memory = hstack([memory, csr_matrix(-np.ones((len(moments), 1)))])
            costs, most = np.concatenate([costs * TIE_MS, [1.0]]), np.concatenate([most, [np.inf]])
        upper = -plain if budget_bytes is None else budget_bytes / MIB - plain
        matrix = vstack([structure, memory]).tocsc()
        return costs, LinearConstraint(matrix, -np.inf, np.concatenate([self._structure_most, upper])), most
