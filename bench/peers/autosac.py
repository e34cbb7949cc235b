"""AutoSAC: `torch.distributed._tools.sac_ilp.sac_milp`, applied.

Its integer program names modules and how much of each one's activations to discard; nothing in torch applies that. Here
each decision becomes a region that keeps what the estimator's own greedy order still keeps once that share is gone.
Statistics, trade-off curves and program are torch's. Three things are ours: ops cost what the harness took them to cost
(torch asks a GPU); modules that may be chosen are the units of chains and those inside; and modules that torch's code
cannot describe (without a backward, or without anything to discard) are left out.

An op that changes a tensor in place, and the op whose tensor it changes, are never kept, since torch's selective
checkpoint refuses a kept tensor that was changed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.distributed._tools.mem_tracker import MemTracker, _ModState
from torch.distributed._tools.runtime_estimator import RuntimeEstimator
from torch.distributed._tools.sac_estimator import SACEstimator, SACGreedyOrderMeta, SACStats

from bench.peers.peer import Answer, PeerRefusedError, StepFacts
from bench.placement.types import Kept, Placement, Region
from bench.step import TrainingStep
from bench.trace.fake import FakeStep

if TYPE_CHECKING:
    from bench.plan.profile import StepProfile

GIB = 2**30
SOLVER_LOGGER = "torch.distributed._tools.sac_ilp"
MIN_CANDIDATES = 2
"""A trade-off curve needs two points at least."""


def placements(profile: StepProfile, facts: StepFacts, budgets: Sequence[int]) -> Iterator[tuple[int | None, Answer]]:
    """For each budget on the whole peak, what AutoSAC decides. Its own budget is that of parameters, gradients and
    activations: what else is there all the time is taken off."""
    try:
        known = module_statistics(facts)
    except PeerRefusedError as refusal:
        for budget in budgets:
            yield budget, refusal
        return
    for budget in budgets:
        try:
            yield budget, _decided(known, budget - (profile.persistent_bytes - known.parameter_bytes))
        except PeerRefusedError as refusal:
            yield budget, refusal


@dataclass(frozen=True, kw_only=True)
class ModuleStatistics:
    """What torch's trackers say of a step."""

    graph: Any
    """torch.distributed._tools.ilp_utils.Graph"""
    root: str
    """Class of the model, which stands before each of torch's module names."""
    stats: dict[str, SACStats]
    orders: dict[str, SACGreedyOrderMeta]
    parameter_bytes: int


def module_statistics(facts: StepFacts) -> ModuleStatistics:
    """Runs the step under torch's three trackers.

    Raises:
        PeerRefusedError: they cannot follow the model.
    """
    from torch.distributed._tools.ilp_utils import aggregate_stats, parse_module_info

    frozen = [name for name, parameter in facts.model.named_parameters() if not parameter.requires_grad]
    if frozen:
        raise PeerRefusedError(f"torch's MemTracker cannot follow frozen parameters, such as {frozen[0]}")
    fake = facts.new_step()
    model, root = fake.step.model, type(fake.step.model).__name__
    units = tuple(f"{root}.{unit}" for chain in facts.chains for unit in chain.units)
    memory = _tracked_memory(fake)
    runtime = _ordered(fake)
    sac = _estimated(fake, facts)
    for name, stats in list(sac.sac_mod_stats.items()):
        inside = any(name == unit or name.startswith(unit + ".") for unit in units)
        discards = len(sac.sac_mod_greedy_order_meta[name].msps_meta) >= MIN_CANDIDATES and sum(stats.memory) > 0
        if not (inside and discards and sum(stats.runtimes) > 0):
            del sac.sac_mod_stats[name]  # torch takes it for a leaf then, which it never chooses
    _drop_unfollowed(memory, runtime)
    with _reproducible():
        described = aggregate_stats(model, memory, runtime, sac, fake.step.device)
    for module in described["mod_stats"]:
        if not all(map(math.isfinite, (*module["slopes"], *module["intercepts"]))):
            # Its curve has fewer distinct points than a fit needs; a leaf is never chosen.
            module["is_leaf"], module["sac_runtime"], module["sac_memory"], module["n_segments"] = True, 0.0, 0, 0
    graph = parse_module_info(described)
    return ModuleStatistics(
        graph=graph,
        root=root,
        stats=sac.sac_mod_stats,
        orders=sac.sac_mod_greedy_order_meta,
        parameter_bytes=graph.nodes[0]["param_per_module"],
    )


def _decided(known: ModuleStatistics, budget_bytes: int) -> Placement:
    from torch.distributed._tools.sac_ilp import sac_milp

    if budget_bytes <= 0:
        raise PeerRefusedError("the budget is less than what is there all the time")
    log = logging.getLogger(SOLVER_LOGGER)
    log.disabled, was_disabled = True, log.disabled  # what it warns of it puts right itself
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of names that PuLP 4 will not have
            decisions, _, peak = sac_milp(known.graph, memory_budget=budget_bytes / GIB)
    finally:
        log.disabled = was_disabled
    if peak < 0:
        raise PeerRefusedError("its integer program finds nothing under this budget")
    if not decisions:
        raise PeerRefusedError("it leaves all modules plain under this budget")
    return Placement(tuple(_region(known, name, share) for name, share in decisions.items()))


def _region(known: ModuleStatistics, name: str, share: float) -> Region:
    keeps = kept_calls(known.stats[name], known.orders[name], share)
    return Region(units=(name.removeprefix(known.root + "."),), keeps=keeps)


def kept_calls(stats: SACStats, order: SACGreedyOrderMeta, share: float) -> tuple[Kept, ...]:
    """What is kept in a module once ops were given up in the greedy order until `share` of the bytes are discarded."""
    total = sum(stats.memory)
    kept = set(range(len(stats.func_names))) - order.recomputed_ops
    discarded = sum(stats.memory[index] for index in order.recomputed_ops)
    for candidate in order.msps_meta:
        if discarded >= share * total:
            break
        group = {candidate.op_idx} | order.inplace_op_groups.get(candidate.op_idx, set())
        group |= order.random_ops_group.get(candidate.op_idx, set())
        kept -= group
        discarded += candidate.memory
    kept -= {index for pair in stats.inplace_ops for index in pair}
    kept -= {index for index in kept if not stats.memory[index]}  # the module's output, which is there anyway
    if discarded >= total:
        return ()
    calls: Counter[str] = Counter()
    chosen: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(stats.func_names):
        if index in kept:
            chosen[name].append(calls[name])
        calls[name] += 1
    return tuple(
        Kept(op=name, calls=() if len(which) == calls[name] else tuple(which)) for name, which in chosen.items()
    )


def _tracked_memory(fake: FakeStep) -> MemTracker:
    """Two steps, the second counted, as torch's documentation says."""
    tracker, step = MemTracker(), fake.step
    with fake.entered(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Module is None", category=UserWarning)  # made in forward: a loss
        tracker.track_external(step.model, step.optimizer, *_tensors(step))
        with tracker:
            step.run()
            tracker.reset_mod_stats()
            step.run()
    return tracker


def _tensors(step: TrainingStep) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(step.batches)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


class _Order(RuntimeEstimator):
    """The order in which modules run forward; the integer program reads nothing else of it."""

    def __init__(self) -> None:
        super().__init__()
        self._estimate = lambda func, args, kwargs: (func(*args, **(kwargs or {})), 0.0)
        self._estimate_mode_type = "order"


def _ordered(fake: FakeStep) -> RuntimeEstimator:
    estimator = _Order()
    with fake.entered(), contextlib.redirect_stdout(io.StringIO()):  # it prints its total
        try:
            with estimator:
                fake.step.forward()
        finally:
            estimator._mod_tracker.__exit__(None, None, None)  # which it forgets
    for order in (estimator.mod_fw_pre_order, estimator.mod_fw_post_order):
        order[:] = dict.fromkeys(order)  # of a module that runs twice, the first call
    return estimator


class _Estimator(SACEstimator):
    """Ops cost what they cost in the plain step's log, which leaves views out."""

    def __init__(self, costs: Sequence[tuple[str, float]]) -> None:
        super().__init__()
        self._costs = costs
        self.num_matched = 0
        self._estimate_runtime = self._of_log

    def _of_log(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, float]:
        out = func(*args, **(kwargs or {}))
        if self.num_matched == len(self._costs):
            return out, 0.0
        name, cost_ms = self._costs[self.num_matched]
        if func._schema.name.partition("::")[2] != name:
            return out, 0.0
        self.num_matched += 1
        return out, cost_ms


def _estimated(fake: FakeStep, facts: StepFacts) -> SACEstimator:
    ops = [(op, facts.op_ms[index]) for index, op in enumerate(facts.log.ops) if facts.is_in_first_forward(index)]
    while ops and not ops[-1][0].module:  # what follows the model: the loss is divided by the number of micro-batches
        ops.pop()
    costs = [(op.name, cost_ms) for op, cost_ms in ops]
    estimator = _Estimator(costs)
    with fake.entered(), estimator:
        fake.step.forward()
    if estimator.num_matched < len(costs):
        name, _ = costs[estimator.num_matched]
        raise PeerRefusedError(f"the estimator ran no {name} where the recorded step did, so its ops have no times")
    return estimator


def _drop_unfollowed(memory: MemTracker, runtime: RuntimeEstimator) -> None:
    """Modules without a whole account, such as one whose output needs no gradient."""
    whole = {_ModState.PRE_FW, _ModState.POST_FW, _ModState.PRE_BW, _ModState.PEAK_BW}
    known = set(runtime.mod_fw_pre_order) & set(runtime.mod_fw_post_order)
    for module, stats in list(memory.memory_tracking.items()):
        if not whole <= set(stats.snapshots) or stats.mod_fqn not in known:
            del memory.memory_tracking[module]
    followed = {stats.mod_fqn for stats in memory.memory_tracking.values()}
    for order in (runtime.mod_fw_pre_order, runtime.mod_fw_post_order):
        order[:] = [name for name in order if name in followed]


@contextlib.contextmanager
def _reproducible() -> Iterator[None]:
    """Curves are fitted by a random search on numpy's global generator."""
    state = np.random.get_state()
    np.random.seed(0)
    try:
        with np.errstate(invalid="ignore", divide="ignore"):
            yield
    finally:
        np.random.set_state(state)
