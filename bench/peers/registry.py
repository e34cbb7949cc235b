"""All peers by name, and what those asked for place on a model."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.peers import autosac, ckptplan, megatron, sequential, torchtitan, transformers
from bench.peers.checkmate import checkmate
from bench.peers.chen import chen_greedy, chen_recursive, chen_sqrt
from bench.peers.errors import OverBudgetError
from bench.peers.peer import Answer, Peer, PeerRefusedError, PlaceFunction, StepFacts
from bench.peers.rotor import rotor
from bench.placement.types import Placement, PlacementError

if TYPE_CHECKING:
    from bench.plan.profile import StepProfile

ALL = "all"


@dataclass(frozen=True, kw_only=True)
class PeerAnswers:
    placed: tuple[tuple[str, Placement], ...]
    """(label, placement): `rotor` or `rotor (1,234.5 MiB)` with its budget. Peers may agree on one placement."""
    reasons: tuple[tuple[str, str], ...]
    """(label, why nothing was placed): a package that is missing, a model or a budget that the peer cannot take."""


def peer_placements(
    profile: StepProfile, facts: StepFacts, names: Sequence[str], budgets: Sequence[int]
) -> PeerAnswers:
    """What the peers named place on one step.

    Args:
        names: of PEERS, or `all`.
        budgets: total peak allocated bytes, for the peers that plan under one; see `budgets_of`.

    Raises:
        PlacementError: there is no peer of a name.
    """
    placed: list[tuple[str, Placement]] = []
    reasons: list[tuple[str, str]] = []
    for peer in peers_named(names):
        missing = [package for package in peer.packages if importlib.util.find_spec(package) is None]
        if missing:
            reasons.append((peer.name, f"needs {' and '.join(missing)}: pip install 'boundary-bench[peers]'"))
            continue
        for label, answer in _answers(peer, profile, facts, budgets):
            if isinstance(answer, Placement):
                placed.append((label, answer))
            else:
                reasons.append((label, str(answer)))
    return PeerAnswers(placed=tuple(placed), reasons=tuple(reasons))


def peers_named(names: Sequence[str]) -> tuple[Peer, ...]:
    """In the registry's order, each once. Raises PlacementError for a name that is none; names close ones."""
    for name in names:
        if name != ALL and name not in PEERS:
            close = difflib.get_close_matches(name, PEERS, n=3)
            hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(PEERS)}"
            raise PlacementError(f"placements.peers: no peer {name!r}; {hint}")
    return tuple(peer for name, peer in PEERS.items() if ALL in names or name in names)


def budgets_of(profile: StepProfile, shares: Sequence[float]) -> tuple[int, ...]:
    """Budgets in bytes from shares of what can move: what is there all the time, plus that share of the rest."""
    moves = profile.peak_bytes - profile.persistent_bytes
    return tuple(profile.persistent_bytes + round(share * moves) for share in shares)


def _answers(
    peer: Peer, profile: StepProfile, facts: StepFacts, budgets: Sequence[int]
) -> Iterator[tuple[str, Answer]]:
    """A peer that fails on a model, whatever the error, is a reason and ends nothing."""
    try:
        for budget, answer in peer.place(profile, facts, budgets):
            yield peer.name if budget is None else f"{peer.name} ({budget / 2**20:,.1f} MiB)", answer
    except Exception as error:
        yield peer.name, PeerRefusedError(f"failed with {type(error).__name__}: {error}")


def _once(place: Callable[[StepFacts], Placement]) -> PlaceFunction:
    def placed(_profile: StepProfile, facts: StepFacts, _budgets: Sequence[int]) -> Iterable[tuple[None, Answer]]:
        try:
            yield None, place(facts)
        except PeerRefusedError as refusal:
            yield None, refusal

    return placed


def _whatever_budget(place: Callable[[StepProfile], Placement]) -> PlaceFunction:
    return lambda profile, _facts, _budgets: [(None, place(profile))]


def _each_budget(plan: Callable[[StepProfile, int], Placement]) -> PlaceFunction:
    def placed(profile: StepProfile, _facts: StepFacts, budgets: Sequence[int]) -> Iterable[tuple[int, Answer]]:
        for budget in budgets:
            try:
                placement = plan(profile, budget)
                yield budget, placement if placement.regions else PeerRefusedError("it leaves everything plain")
            except (PeerRefusedError, OverBudgetError) as refusal:
                yield budget, PeerRefusedError(*refusal.args)

    return placed


_TORCH_CHECKPOINT = "torch.utils.checkpoint around modules, as most training scripts do"
_SEQUENTIAL = "torch.utils.checkpoint.checkpoint_sequential; the last segment is plain"
_TRANSFORMERS = "transformers 5: model.activation_checkpointing_enable(every_n_layers=k)"
_MEGATRON = "Megatron-LM: --recompute-granularity, Korthikanti et al. 2022, arXiv 2205.05198"
_TORCHTITAN = "torchtitan 0.3: torchtitan/distributed/activation_checkpoint.py"
_CKPTPLAN = "ckptplan 0.1.0rc1 on our byte profiles"
_CHEN = "Chen et al. 2016, arXiv 1604.06174"


def _all_peers() -> Iterator[Peer]:
    for k in (1, 2, 3, 4):
        yield _fixed("every-block" if k == 1 else f"every-{k}", _TORCH_CHECKPOINT, _every(k))
    for k in (1, 2, 3, 4):
        yield _fixed(f"transformers-every-{k}", _TRANSFORMERS, _every_n_layers(k))
    for segments in (2, 3, 4, sequential.SQRT):
        yield _fixed(f"checkpoint-sequential-{segments}", _SEQUENTIAL, _sequential(segments))
    yield _fixed("megatron-core-attention", _MEGATRON, megatron.core_attention)
    for layers in (2, 4):
        yield _fixed(f"megatron-uniform-{layers}", _MEGATRON, _uniform(layers))
    yield _fixed("megatron-block-half", _MEGATRON, lambda facts: megatron.block(facts.chains))
    yield _fixed("torchtitan-full", _TORCHTITAN, lambda facts: torchtitan.full(facts.chains))
    yield _fixed("torchtitan-selective", _TORCHTITAN, torchtitan.selective)
    yield _fixed(
        "torchtitan-layers-2",
        "torchtitan 0.2: selective_ac_option=2, gone in 0.3",
        lambda facts: torchtitan.layers(facts.chains, 2),
    )
    yield Peer(
        name="autosac",
        source="torch.distributed._tools.sac_ilp.sac_milp, its decisions applied",
        is_installable=True,
        place=autosac.placements,
        packages=("pulp", "pwlf"),
    )
    for planner in ckptplan.PLANNERS:
        yield Peer(
            name=f"ckptplan-{planner}",
            source=_CKPTPLAN,
            is_installable=True,
            place=_each_budget(_ckptplan(planner)),
            packages=("ckptplan",),
        )
    yield Peer(name="chen-sqrt", source=_CHEN, is_installable=False, place=_whatever_budget(chen_sqrt))
    yield Peer(name="chen-recursive", source=_CHEN, is_installable=False, place=_whatever_budget(chen_recursive))
    yield _recreated("chen-greedy", _CHEN, chen_greedy)
    yield _recreated("rotor", "Herrmann et al. 2019, arXiv 1911.13214", rotor)
    yield _recreated("checkmate", "Jain et al. 2020, arXiv 1910.02653", checkmate)


def _fixed(name: str, source: str, place: Callable[[StepFacts], Placement]) -> Peer:
    return Peer(name=name, source=source, is_installable=True, place=_once(place))


def _recreated(name: str, source: str, plan: Callable[[StepProfile, int], Placement]) -> Peer:
    return Peer(name=name, source=source, is_installable=False, place=_each_budget(plan))


def _every(k: int) -> Callable[[StepFacts], Placement]:
    return lambda facts: sequential.every(facts.chains, k)


def _every_n_layers(k: int) -> Callable[[StepFacts], Placement]:
    return lambda facts: transformers.every_n_layers(facts, k)


def _sequential(segments: int | str) -> Callable[[StepFacts], Placement]:
    return lambda facts: sequential.checkpoint_sequential(facts.chains, segments)


def _uniform(layers: int) -> Callable[[StepFacts], Placement]:
    return lambda facts: megatron.uniform(facts.chains, layers)


def _ckptplan(planner: str) -> Callable[[StepProfile, int], Placement]:
    return lambda profile, budget: ckptplan.planned(profile, budget, planner)


PEERS: dict[str, Peer] = {peer.name: peer for peer in _all_peers()}
"""Name → peer. Those without a budget of their own first, then planners, then what is re-created from papers."""
