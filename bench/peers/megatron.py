"""Megatron-LM's recomputation: core attention (Korthikanti et al. 2022, arXiv 2205.05198), `uniform` and `block`.

Core attention is what lies between the projections to queries, keys and values and the output projection. No model of
the zoo has a module that is the core alone. So the region is the attention module, and it keeps what the projections
hand out; its replay stops before the output projection, since that saves nothing but its input. Two differences stay:
what stands between the projections and the core (rotary embedding, reshapes) is replayed with it, as is a norm inside
the module, and the core's output is rebuilt where Megatron keeps it as the output projection's input.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from bench.peers.peer import PeerRefusedError, StepFacts
from bench.peers.sequential import in_runs
from bench.placement.policy import OP_GROUPS
from bench.placement.tool_ops import PROJECTION_OPS
from bench.placement.types import Kept, Placement, Region
from bench.spec import ChainInfo

ATTENTION_KIND = "attention"
CORE_OPS = OP_GROUPS["attention"] | {"bmm", "baddbmm"}
"""The core begins at the first of them: a fused kernel, or the product of queries and keys."""


def core_attention(facts: StepFacts) -> Placement:
    """`--recompute-granularity selective`.

    Raises:
        PeerRefusedError: the model has no attention, or its projections cannot be told from the core.
    """
    modules = [
        f"{unit}.{part}"
        for chain in facts.chains
        for unit in chain.units
        for part in chain.kinds.get(ATTENTION_KIND, ())
    ]
    if not modules:
        raise PeerRefusedError("no unit has a submodule of the kind attention")
    return Placement(tuple(Region(units=(module,), keeps=_projections(facts, module)) for module in modules))


def uniform(chains: Sequence[ChainInfo], layers: int) -> Placement:
    """`--recompute-method uniform --recompute-num-layers N`: each chain in regions of N units."""
    runs, begin = [], 0
    for chain in chains:
        end = begin + len(chain.units)
        runs += [range(start, min(start + layers, end)) for start in range(begin, end, layers)]
        begin = end
    return in_runs(chains, runs)


def block(chains: Sequence[ChainInfo]) -> Placement:
    """`--recompute-method block`, with half of each chain: its first units, a region each."""
    units = [unit for chain in chains for unit in chain.units[: (len(chain.units) + 1) // 2]]
    return Placement(tuple(Region(units=(unit,)) for unit in units))


def _projections(facts: StepFacts, module: str) -> tuple[Kept, ...]:
    """The calls of matrix products in `module` before its core."""
    calls: Counter[str] = Counter()
    kept: dict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(facts.log.ops):
        if not facts.is_in_first_forward(index) or not (op.module == module or op.module.startswith(module + ".")):
            continue
        if op.name in CORE_OPS:
            break
        if op.name in PROJECTION_OPS:
            kept[op.name].append(calls[op.name])
        calls[op.name] += 1
    else:
        raise PeerRefusedError(f"{module} runs none of {', '.join(sorted(CORE_OPS))}, so its core cannot be found")
    if not kept:
        raise PeerRefusedError(f"{module} runs no projection before its core")
    return tuple(Kept(op=name, calls=tuple(where)) for name, where in kept.items())
