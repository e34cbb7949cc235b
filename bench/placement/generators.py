"""Generators: placements made from a model's chains. A model with several chains gets the same pattern in each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bench.placement.grammar import parse_placement
from bench.placement.types import NONE, Kept, Options, Placement, PlacementError, Region
from bench.spec import ChainInfo, PlacementEntry

Chains = Sequence[ChainInfo]


def generate_placements(options: Mapping[str, object], chains: Chains) -> tuple[PlacementEntry, ...]:
    """The placements that `options` (the Hydra group `placements`) asks for, each once, in order.

    Raises:
        PlacementError: an option is unknown or out of range, or nothing is asked for. PLANNING_OPTIONS are left to the
            planner.
    """
    unknown = sorted(set(options) - set(GENERATORS) - {"none", "each", "explicit"} - set(PLANNING_OPTIONS))
    if unknown:
        raise PlacementError(f"placements.{unknown[0]}: no such generator; there are {', '.join(GENERATORS)}")
    merged: dict[str, tuple[Placement, list[str]]] = {}
    for label, placement in _asked_for(options, chains):
        labels = merged.setdefault(placement.text, (placement, []))[1]
        if label not in labels:
            labels.append(label)
    if not merged:
        raise PlacementError("placements: nothing to measure; set placements.none=true or placements.explicit=[…]")
    return tuple(
        PlacementEntry(text=text, id=placement.id, generators=tuple(labels))
        for text, (placement, labels) in merged.items()
    )


def _asked_for(options: Mapping[str, object], chains: Chains) -> Iterator[tuple[str, Placement]]:
    explicit = _list(options, "explicit")
    if explicit:
        for text in explicit:
            yield EXPLICIT_FAMILY, parse_placement(str(text))
        return
    if _is_asked(options, "none"):
        yield NONE_FAMILY, NONE
    if _is_asked(options, "each"):
        yield EACH_FAMILY, every(chains, 1)
    for name, (generate, family) in GENERATORS.items():
        for value in _list(options, name):
            try:
                yield _label(family, value), generate(chains, value)
            except (PlacementError, ValueError, TypeError) as error:
                raise PlacementError(f"placements.{name}: {error}") from None


def _is_asked(options: Mapping[str, object], name: str) -> bool:
    value = options.get(name) or False
    if not isinstance(value, bool):
        raise PlacementError(f"placements.{name}: expected true or false, got {value!r}")
    return value


def _list(options: Mapping[str, object], name: str) -> list[object]:
    value = options.get(name) or []
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise PlacementError(f"placements.{name}: expected a list, got {value!r}")
    return list(value)


def every(chains: Chains, k: object) -> Placement:
    """Every k-th unit of each chain, from its first on, a region of its own (transformers' `every_n_layers`)."""
    step = _count(k)
    return _alone(unit for chain in chains for unit in chain.units[::step])


def first(chains: Chains, k: object) -> Placement:
    """The first k units of each chain, a region each (Megatron's `block` method)."""
    count = _count(k)
    return _alone(unit for chain in chains for unit in chain.units[:count])


def all_but_last(chains: Chains, k: object) -> Placement:
    """All units but the last k of each chain, which backward needs again at once: replaying them frees little."""
    count = _count(k)
    return _alone(unit for chain in chains for unit in chain.units[:-count])


def spans(chains: Chains, k: object) -> Placement:
    """Each chain in k equal spans, each replayed as one region; `sqrt` is Chen et al. 2016 (arXiv 1604.06174)."""
    return Placement(tuple(Region(units=units) for chain in chains for units in _split(chain.units, k)))


def nested_spans(chains: Chains, k: object) -> Placement:
    """k equal spans with every unit a region of its own inside: a second level of recursion (Chen et al. 2016, 4.4)."""
    outer = spans(chains, k)
    inner = (Region(units=(unit,)) for region in outer.regions if len(region.units) > 1 for unit in region.units)
    return Placement(outer.regions + tuple(inner))


def of_kind(chains: Chains, kind: object) -> Placement:
    """Every submodule of one kind (`attention`, `mlp`, `norm`) inside the units, a region each; `mlp%2` in every second
    unit."""
    name, _, every_k = str(kind).partition("%")
    known = sorted({name for chain in chains for name in chain.kinds})
    if name not in known:
        raise PlacementError(f"{name!r} is no kind of submodule of this model; there are {', '.join(known)}")
    if "%" in str(kind) and not every_k.isdigit():
        raise PlacementError(f"{kind!r}: write {name}%K for every K-th unit")
    step = _count(int(every_k)) if every_k else 1
    return _alone(
        f"{unit}.{part}" for chain in chains for unit in chain.units[::step] for part in chain.kinds.get(name, ())
    )


def keeping(chains: Chains, policy: object) -> Placement:
    """Every unit a region that keeps the outputs of an op (`matmul`, `attention`, `matmul%2`, `attention.matmul`)."""
    kept = _parse_one(f"unit:keep.{policy}").keeps
    return _alone((unit for chain in chains for unit in chain.units), keeps=kept)


def with_option(chains: Chains, option: object) -> Placement:
    """Every unit a region of its own, with one checkpoint option (`no-rng`, `reentrant`)."""
    options = _parse_one(f"unit@{option}").options
    return _alone((unit for chain in chains for unit in chain.units), options=options)


GENERATORS: dict[str, tuple[Callable[[Chains, object], Placement], str]] = {
    "every": (every, "every k-th block"),
    "first": (first, "leading blocks"),
    "but_last": (all_but_last, "all but the last blocks"),
    "spans": (spans, "spans"),
    "nested": (nested_spans, "nested spans"),
    "kinds": (of_kind, "submodules"),
    "policies": (keeping, "policies"),
    "options": (with_option, "checkpoint options"),
}
"""Option → what makes its placements, and the family that they are shown as."""
PLANNING_OPTIONS = ("planned", "budgets", "peers", "peer_budgets", "match_peers", "rounds")
"""Options of the same group whose placements need a recording of the step."""
NONE_FAMILY, EACH_FAMILY, EXPLICIT_FAMILY = "none", "every block", "explicit"
PLANNED_FAMILY, PEER_FAMILY = "planned", "peer"
FAMILIES = (
    NONE_FAMILY,
    EACH_FAMILY,
    *(family for _, family in GENERATORS.values()),
    EXPLICIT_FAMILY,
    PLANNED_FAMILY,
    PEER_FAMILY,
)


def family_of(label: str) -> str:
    """The family in a generator's label, which is `family` or `family (detail)`; all peers are one, whose labels are
    `peer name` and `peer name (detail)`."""
    family = label.partition(" (")[0]
    return PEER_FAMILY if family.startswith(f"{PEER_FAMILY} ") else family


def _label(family: str, value: object) -> str:
    return f"{family} ({'√n' if value == 'sqrt' else value})"


def _parse_one(text: str) -> Region:
    """A region written for its policy or option; an error speaks of that alone."""
    try:
        return parse_placement(text).regions[0]
    except PlacementError as error:
        raise PlacementError(str(error).partition(f"placement {text!r}: ")[2] or str(error)) from None


def _alone(units: Iterable[str], keeps: tuple[Kept, ...] = (), options: Options | None = None) -> Placement:
    return Placement(tuple(Region(units=(unit,), keeps=keeps, options=options or Options()) for unit in units))


def _split(units: Sequence[str], k: object) -> list[tuple[str, ...]]:
    """k runs of equal length; earlier ones are a unit longer where it does not divide."""
    count = max(1, round(math.sqrt(len(units)))) if k == "sqrt" else _count(k)
    if not units:
        return []
    count = min(count, len(units))
    size, longer = divmod(len(units), count)
    bounds = [0]
    for index in range(count):
        bounds.append(bounds[-1] + size + (index < longer))
    return [tuple(units[a:b]) for a, b in itertools.pairwise(bounds)]


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PlacementError(f"expected a whole number of at least 1, got {value!r}")
    return value
