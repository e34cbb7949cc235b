"""What the group `placements` asks of the planner, and what a measured study tells it for a second round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.frontier import Frontier, build_frontier, gap_budgets, gap_points
from bench.frontier.versus import versus
from bench.placement import PlacementError
from bench.plan.budgets import budget_bytes
from bench.records import PLAIN, PlanRequest, Records
from bench.spec import SpecError, StudySpec
from bench.study.planning import FIRST_ROUND, SECOND_ROUND, Knowledge

ALL_PEERS = "all"


def plan_request(placements: Mapping[str, Any]) -> PlanRequest:
    """What of `placements` is to be planned; nothing where `explicit` names all placements.

    Raises:
        SpecError: an option is not what it should be; of a peer that there is not, names close ones.
    """
    if placements.get("explicit"):
        return PlanRequest()
    count = placements.get("planned") or 0
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise SpecError(f"placements.planned: expected a whole number of placements, got {count!r}")
    peers = peer_names(placements.get("peers"))
    budgets = budget_texts(placements.get("budgets"), "placements.budgets")
    matched = placements.get("match_peers")
    if matched not in (None, True, False):
        raise SpecError(f"placements.match_peers: expected true, false or null, got {matched!r}")
    return PlanRequest(
        count=count,
        budgets=budgets,
        peers=peers,
        peer_budgets=budget_texts(placements.get("peer_budgets"), "placements.peer_budgets") if peers else (),
        match_peers=bool(peers) and (bool(count) if matched is None else matched),
    )


def plan_rounds(placements: Mapping[str, Any]) -> int:
    """Raises SpecError for anything but 1 and 2."""
    rounds = placements.get("rounds", FIRST_ROUND)
    if rounds not in (FIRST_ROUND, SECOND_ROUND) or isinstance(rounds, bool):
        raise SpecError(f"placements.rounds: expected 1, or 2 to plan again once those are measured; got {rounds!r}")
    return int(rounds)


def budget_texts(option: Any, name: str) -> tuple[str, ...]:
    """`8GiB`, `60%`, or numbers: shares of what can move up to 1, else bytes; one or a list, each once.

    Raises:
        SpecError: one of them is no size.
    """
    values = option if isinstance(option, (list, tuple)) else [] if option is None else [option]
    texts = tuple(dict.fromkeys(_budget_text(value) for value in values))
    for text in texts:
        try:
            budget_bytes(text, persistent_bytes=0, peak_bytes=2**40)
        except SpecError as error:
            raise SpecError(f"{name}: {str(error).removeprefix('budget: ')}") from None
    return texts


def peer_names(option: Any) -> tuple[str, ...]:
    """Raises SpecError for a name that is no peer's, naming close ones."""
    names = option if isinstance(option, (list, tuple)) else [] if option is None else [option]
    if any(name != ALL_PEERS for name in names):
        from bench.peers.registry import peers_named  # loads torch, which takes seconds

        return tuple(peer.name for peer in peers_named(_texts(names)))
    return (ALL_PEERS,) if names else ()


def knowledge(study: StudySpec, records: Records) -> Knowledge:
    """What a measured study tells the planner: times that correct its costs, and the budgets where another placement is
    worth most. These are the largest gaps of the frontier, and the peaks of peers' placements that none of the planned
    ones was shown to match.
    """
    frontier = build_frontier(study, records)
    missed = versus(study, records, frontier.trials, records.plans).misses
    points = gap_points(frontier.trials, frontier.reference)
    gaps = gap_budgets(points, resolution=study.controls.protocol.target_half_width)
    budgets = (*gaps, *(duel.their_peak_bytes for duel in missed))
    return Knowledge(measured_shares=replay_shares(frontier), budgets=tuple(dict.fromkeys(budgets)))


def replay_shares(frontier: Frontier) -> dict[str, float]:
    """Placement → by what share of the step of `none` its own took longer, where that has an interval; empty where
    ratios are to another placement. A share, since the machine may run at another speed when it is used."""
    if frontier.reference != PLAIN:
        return {}
    return {
        trial.placement: trial.time_ratio - 1
        for trial in frontier.trials
        if trial.time_ratio is not None and trial.time_ratio_interval is not None and trial.placement != PLAIN
    }


def _budget_text(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1:
        return f"{100 * value:g}%"
    return str(value)


def _texts(names: Sequence[Any]) -> list[str]:
    if not all(isinstance(name, str) for name in names):
        raise PlacementError(f"placements.peers: expected names of peers, got {list(names)!r}")
    return [str(name) for name in names]
