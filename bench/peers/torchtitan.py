"""torchtitan 0.3's activation checkpointing (torchtitan/distributed/activation_checkpoint.py), and 0.2's by layer.

It wraps each block with torch's `checkpoint_wrapper`, without early stop. Selective keeps the outputs of a list of ops,
of `mm` every second call from the first on. Our grammar names ops and not their overloads, so `max.dim` is kept beside
`max`. Left out of the list is what no single eager process runs: collectives, higher-order and compiled ops.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.peer import PeerRefusedError, StepFacts
from bench.placement.tool_ops import HALVED_OPS, SAVED_OPS, WITHOUT_EARLY_STOP
from bench.placement.types import Kept, Placement, Region
from bench.spec import ChainInfo
from bench.trace.log import NOWHERE


def full(chains: Sequence[ChainInfo]) -> Placement:
    """`FullAC`: every block."""
    return _blocks([unit for chain in chains for unit in chain.units])


def layers(chains: Sequence[ChainInfo], frequency: int) -> Placement:
    """torchtitan 0.2's `selective_ac_option="2"`: blocks are counted from 1, and every k-th is wrapped."""
    return _blocks([unit for chain in chains for unit in chain.units][frequency - 1 :: frequency])


def selective(facts: StepFacts) -> Placement:
    """`SelectiveAC`. Ops of its list that no unit runs are left out of the text, which keeps the same tensors. So are
    ops whose output the model changes in place later (transformers' Mixtral that of `topk`): torch refuses to keep it.

    Raises:
        PeerRefusedError: the units run none of the ops.
    """
    units = [unit for chain in facts.chains for unit in chain.units]
    inside = tuple(f"{unit}." for unit in units)
    run, changed = set[str](), set[str]()
    for index, op in enumerate(facts.log.ops):
        if not facts.is_in_first_forward(index) or not (op.module in units or op.module.startswith(inside)):
            continue
        run.add(op.name)
        makers = {facts.log.storages[storage].op for storage in op.writes}
        changed |= {facts.log.ops[maker].name for maker in makers if maker not in (index, NOWHERE)}
    keeps = tuple(Kept(op=name, every=2 if name in HALVED_OPS else 1) for name in SAVED_OPS if name in run - changed)
    if not keeps:
        raise PeerRefusedError("no unit runs an op of its list, so it is torchtitan-full")
    return _blocks(units, keeps)


def _blocks(units: Sequence[str], keeps: tuple[Kept, ...] = ()) -> Placement:
    return Placement(tuple(Region(units=(unit,), keeps=keeps, options=WITHOUT_EARLY_STOP) for unit in units))
