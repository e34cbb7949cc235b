"""A placement in the settings of another tool, or why it cannot be said there.

Each tool has a list of what it can say on a model's chains; a placement is one of them or none. What they place is
written down in `bench.peers`, which needs torch: tests hold what is said here against it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.placement import Options, Placement, Region, parse_placement
from bench.placement.tool_ops import HALVED_OPS, PROJECTION_OPS, SAVED_OPS, WITHOUT_EARLY_STOP
from bench.spec import ChainInfo, SpecError

ATTENTION = "attention"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to write in the other tool, or why there is nothing to write."""

    format: str
    lines: tuple[str, ...] = ()
    """Empty where the placement cannot be said there."""
    reason: str = ""
    notes: tuple[str, ...] = ()
    """What must hold for the lines to mean the placement."""


def tool_settings(placement: str, chains: Sequence[ChainInfo], format: str) -> Settings:
    """
    Args:
        chains: of the study that the placement is from.
        format: one of FORMATS.

    Raises:
        SpecError: there is no such format.
        PlacementError: `placement` is no placement text.
    """
    if format not in FORMATS:
        raise SpecError(f"format: {format!r} is none of {', '.join(FORMATS)}")
    parsed = parse_placement(placement)
    if not parsed.regions:
        return Settings(format=format, lines=(_OFF[format],))
    for option, why in _UNSAYABLE.items():
        if any(getattr(region.options, option) is not getattr(Options(), option) for region in parsed.regions):
            return Settings(format=format, reason=f"{_NAMES[format]} {why}")
    said = FORMATS[format](parsed, chains)
    return replace(said, format=format)


def _transformers(placement: Placement, chains: Sequence[ChainInfo]) -> Settings:
    """`every_n_layers=k` takes the layers whose number k divides, over all chains."""
    if any(region.keeps for region in placement.regions):
        return _no("transformers replays a layer whole: it has no policy that keeps op outputs")
    if any(len(region.units) > 1 for region in placement.regions):
        return _no("transformers checkpoints each layer by itself: it has no spans")
    options = {region.options for region in placement.regions}
    if options == {Options()}:
        reentrant = False
    elif options == {Options(reentrant=True)}:
        reentrant = True
    else:
        return _no("transformers gives all layers the same options, and @no-early-stop is none of them")
    units, placed = _units(chains), _placed(placement)
    for k in range(1, len(units) + 1):
        if placed == set(units[::k]):
            return Settings(
                format="",
                lines=(
                    "TrainingArguments(activation_checkpointing=True, activation_checkpointing_kwargs="
                    f'{{"every_n_layers": {k}, "use_reentrant": {reentrant}}})',
                    "model.activation_checkpointing_enable("
                    f'activation_checkpointing_kwargs={{"use_reentrant": {reentrant}}}, every_n_layers={k})',
                ),
                notes=(
                    "its layers (GradientCheckpointingLayer) are taken to be the units of the chains, in this order",
                ),
            )
    return _no(_other_units(placement, units, "every k-th layer from the first on"))


def _torchtitan(placement: Placement, chains: Sequence[ChainInfo]) -> Settings:
    if any(len(region.units) > 1 for region in placement.regions):
        return _no("torchtitan checkpoints each block by itself: it has no spans")
    options = {region.options for region in placement.regions}
    if options == {Options()}:
        return _no("torchtitan wraps blocks without early stop; measure the same placement with @no-early-stop")
    if options != {WITHOUT_EARLY_STOP}:
        return _no("torchtitan gives all blocks the same options: @no-early-stop alone")
    units, placed = _units(chains), _placed(placement)
    keeps = {region.keeps for region in placement.regions}
    if placed == set(units) and keeps == {()}:
        return Settings(format="", lines=("FullAC()  # 0.3", '--activation_checkpoint.mode "full"  # 0.2'))
    if placed == set(units) and len(keeps) == 1 and _is_selective(placement.regions[0]):
        return Settings(
            format="",
            lines=("SelectiveAC()  # 0.3", '--activation_checkpoint.mode "selective"  # 0.2, selective_ac_option "op"'),
            notes=("ops of its list that no unit runs, or whose output is changed in place, are not in the placement",),
        )
    if keeps == {()}:
        for k in range(2, len(units) + 1):
            if placed == set(units[k - 1 :: k]):
                line = f'--activation_checkpoint.mode "selective" --activation_checkpoint.selective_ac_option "{k}"'
                return Settings(format="", lines=(line + "  # 0.2",), notes=("gone in torchtitan 0.3",))
        return _no(_other_units(placement, units, "every k-th block, the k-th first"))
    return _no("torchtitan keeps its own list of ops (mm and linear every second call), in every block")


def _megatron(placement: Placement, chains: Sequence[ChainInfo]) -> Settings:
    if {region.options for region in placement.regions} != {Options()}:
        return _no("Megatron-LM has no checkpoint options")
    said = placement.regions
    if any(region.keeps for region in said):
        if _is_core_attention(placement, chains):
            return Settings(
                format="",
                lines=("--recompute-granularity selective --recompute-modules core_attn",),
                notes=("what stands between the projections and the core is replayed here and kept there",),
            )
        return _no("Megatron-LM keeps op outputs in one way alone: around the core of attention")
    for layers in range(1, max((len(chain.units) for chain in chains), default=0) + 1):
        if {region.units for region in said} == set(_runs(chains, layers)):
            flags = "--recompute-granularity full --recompute-method uniform --recompute-num-layers"
            return Settings(format="", lines=(f"{flags} {layers}",))
    counts = {_num_first(placement, chain) for chain in chains}
    count = counts.pop() if len(counts) == 1 else 0
    if count and count * len(chains) == len(said):
        flags = "--recompute-granularity full --recompute-method block --recompute-num-layers"
        return Settings(format="", lines=(f"{flags} {count}",), notes=("the number is a pipeline stage's",))
    if any(set(region.units) - set(_units(chains)) for region in said):
        return _no("Megatron-LM replays layers or the core of attention, no other part of a layer")
    return _no("Megatron-LM replays runs of equal length over all layers, or the first layers each by itself")


FORMATS: dict[str, Callable[[Placement, Sequence[ChainInfo]], Settings]] = {
    "transformers": _transformers,
    "torchtitan": _torchtitan,
    "megatron": _megatron,
}
"""Tool → what it can say."""
_NAMES = {"transformers": "transformers", "torchtitan": "torchtitan", "megatron": "Megatron-LM"}
_OFF = {
    "transformers": "TrainingArguments(activation_checkpointing=False)",
    "torchtitan": '--activation_checkpoint.mode "none"  # 0.2; nothing in 0.3',
    "megatron": "# no --recompute-… flag",
}
_UNSAYABLE = {
    "restore": "cannot put back state that a forward changes (@restore)",
    "preserve_rng": "replays with the random state of the first pass; it has no @no-rng",
    "determinism_check": "has no setting for @no-determinism-check",
}


def _no(reason: str) -> Settings:
    return Settings(format="", reason=reason)


def _units(chains: Sequence[ChainInfo]) -> list[str]:
    return [unit for chain in chains for unit in chain.units]


def _placed(placement: Placement) -> set[str]:
    return {unit for region in placement.regions for unit in region.units}


def _other_units(placement: Placement, units: Sequence[str], what: str) -> str:
    parts = sorted(_placed(placement) - set(units))
    if parts:
        return f"it replays whole layers alone, and {parts[0]} is none"
    return f"it replays {what}, and these are others"


def _runs(chains: Sequence[ChainInfo], layers: int) -> Iterator[tuple[str, ...]]:
    for chain in chains:
        for start in range(0, len(chain.units), layers):
            yield chain.units[start : start + layers]


def _num_first(placement: Placement, chain: ChainInfo) -> int:
    """How many units from the chain's first on are a region each."""
    alone = {region.units[0] for region in placement.regions if len(region.units) == 1}
    return len(list(itertools.takewhile(lambda unit: unit in alone, chain.units)))


def _is_selective(region: Region) -> bool:
    return all(
        kept.op in SAVED_OPS and not kept.calls and kept.every == (2 if kept.op in HALVED_OPS else 1)
        for kept in region.keeps
    )


def _is_core_attention(placement: Placement, chains: Sequence[ChainInfo]) -> bool:
    modules = {f"{u}.{part}" for chain in chains for u in chain.units for part in chain.kinds.get(ATTENTION, ())}
    return {region.units for region in placement.regions} == {(module,) for module in modules} and all(
        region.keeps and all(kept.op in PROJECTION_OPS and kept.calls for kept in region.keeps)
        for region in placement.regions
    )
