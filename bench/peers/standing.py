"""Plans against peers in exact bytes and counted cost. No step is run: every model can be asked, and nothing is noise.

At the peak of each placement of a peer the planner plans anew; what is compared is the plain step's cost plus what is
replayed, with FLOPs and bytes at fixed rates (`bench.plan.costs.counted_costs`), as in table 2 of Checkmate
(arXiv 1910.02653).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.peers.peer import StepFacts
from bench.peers.registry import ALL, PEERS, budgets_of, peer_placements
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.generators import family_of
from bench.placement.types import PlacementError
from bench.plan.costs import counted_costs
from bench.plan.planner import OverBudgetError, Planner
from bench.plan.profile import profile_step
from bench.spec import ChainInfo
from bench.trace.fake import FakeStep
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError

BUDGET_SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Of what can move; for peers that plan under a budget."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A peer's placement, and ours at its peak."""

    peer: str
    is_installable: bool
    label: str
    placement: str
    peak_bytes: int
    cost: float
    """Of its step, over the plain one's."""
    our_placement: str
    our_peak_bytes: int
    our_cost: float

    @property
    def ratio(self) -> float:
        return self.our_cost / self.cost


def standings(
    forecaster: Forecaster,
    chains: Sequence[ChainInfo],
    new_step: Callable[[], FakeStep],
    names: Sequence[str] = (ALL,),
) -> tuple[tuple[Standing, ...], dict[str, str]]:
    """(one for each placement of each peer, peer or label → why there is none).

    Raises:
        CannotRearrangeError: nothing of this step can be planned.
    """
    costs = counted_costs(forecaster.plain_log)
    planner = Planner(forecaster, chains, costs)
    profile = profile_step(forecaster, chains, costs)
    facts = StepFacts(
        model=forecaster.model, chains=tuple(chains), log=forecaster.plain_log, op_ms=costs.op_ms, new_step=new_step
    )
    answers = peer_placements(profile, facts, names, budgets_of(profile, BUDGET_SHARES))
    missing = dict(answers.reasons)
    found: dict[str, Standing] = {}
    rows = []
    for label, placement in answers.placed:
        if placement.text not in found:
            try:
                peak = forecaster.fast(placement).peak_allocated_bytes
                extra_ms = costs.replay_ms(forecaster.rearranged(placement))
                plan = planner.plan(peak)
            except (CannotRearrangeError, PlacementError, UnsupportedPlacementError, OverBudgetError) as error:
                missing[label] = str(error)
                continue
            found[placement.text] = Standing(
                peer="",
                is_installable=False,
                label="",
                placement=placement.text,
                peak_bytes=peak,
                cost=1 + extra_ms / costs.step_ms,
                our_placement=plan.placement.text,
                our_peak_bytes=plan.forecast.peak_allocated_bytes,
                our_cost=1 + plan.replay_ms / costs.step_ms,
            )
        name = family_of(label)
        values = vars(found[placement.text]) | {
            "peer": name,
            "is_installable": PEERS[name].is_installable,
            "label": label,
        }
        rows.append(Standing(**values))
    return tuple(rows), missing


def mean_ratios(rows: Iterable[Standing]) -> dict[str, tuple[float, float, int]]:
    """Peer → (geometric mean of our cost over its, the largest of them, number of placements)."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(row.peer, []).append(row.ratio)
    return {
        peer: (math.exp(sum(map(math.log, of_peer)) / len(of_peer)), max(of_peer), len(of_peer))
        for peer, of_peer in ratios.items()
    }
