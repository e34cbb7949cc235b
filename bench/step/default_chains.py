"""Chains of a model that does not name its own: the repeated blocks that its containers hold.

It goes by structure alone. Whether a model really runs a chain's units one after another is seen when it runs: spans
are held against the recorded wiring and refused where it is otherwise, and a region of one unit needs no order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from torch import nn

from bench.spec import ChainInfo

ATTENTION, MLP, NORM = "attention", "mlp", "norm"
_ATTENTION = re.compile(r"attn|attention")
_MLP = re.compile(r"mlp|ffn|feed_?forward|denserelu|(^|_|layer)ff$")
_NORM = re.compile(r"norm|^ln(_|\d|$)|^bn\d*$")
Containers = (nn.Sequential, nn.ModuleList)


def default_chains(model: nn.Module) -> tuple[ChainInfo, ...]:
    """One chain a container of blocks, in the order of `named_modules`, so that no chain lies inside another.

    Blocks are at least two modules with children of their own, half of them or more of one class, in an nn.ModuleList
    or nn.Sequential; the outermost such container counts, unless its members only hold such containers themselves
    (stages in an nn.Sequential). A model without blocks gives its outermost nn.Sequential with two members or more,
    layer by layer, and one without that its own direct children.
    """
    found = list(_block_containers("", model)) or list(_plain_sequences("", model)) or [("", model)]
    return tuple(_chain(name, container) for name, container in found if len(_members(container)) > 1)


def _block_containers(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(module, Containers) and _are_blocks(_members(module)):
        inside = [found for child, unit in _members(module) for found in _block_containers(_join(name, child), unit)]
        only_groups = all(isinstance(unit, Containers) for _, unit in _members(module))
        uncallable = any(isinstance(unit, nn.ModuleList) for _, unit in _members(module))
        if not (only_groups and inside) and not uncallable:
            yield name, module
        else:
            yield from inside
        return
    for child, unit in module.named_children():
        yield from _block_containers(_join(name, child), unit)


def _are_blocks(members: list[tuple[str, nn.Module]]) -> bool:
    classes = Counter(type(unit) for _, unit in members if _has_children(unit))
    return bool(classes) and max(classes.values()) >= max(2, len(members) / 2)


def _plain_sequences(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(module, nn.Sequential) and len(module) > 1:
        yield name, module
        return
    for child, unit in module.named_children():
        yield from _plain_sequences(_join(name, child), unit)


def _chain(name: str, container: nn.Module) -> ChainInfo:
    units = _members(container)
    return ChainInfo(
        name=name or type(container).__name__,
        units=tuple(_join(name, child) for child, _ in units),
        kinds=_kinds([unit for _, unit in units]),
    )


def _kinds(units: list[nn.Module]) -> dict[str, tuple[str, ...]]:
    """Kind → relative paths of its submodules, of those that every unit of the chain has."""
    roles = [dict(_roles("", unit)) for unit in units]
    common = [(path, kind) for path, kind in roles[0].items() if all(other.get(path) == kind for other in roles)]
    return {
        kind: tuple(path for path, its in common if its == kind) for kind in dict.fromkeys(kind for _, kind in common)
    }


def _roles(path: str, module: nn.Module) -> Iterator[tuple[str, str]]:
    """(relative path, kind) of the submodules of a unit, none inside another."""
    for child, part in module.named_children():
        inner = _join(path, child)
        role = _role(child, part)
        deeper = dict(_roles(inner, part))
        # A wrapper around what plays its role (attention with its norm and dropout) is left for what it holds.
        if role and role not in deeper.values():
            yield inner, role
        elif role or isinstance(part, Containers) or {ATTENTION, MLP, NORM} & set(deeper.values()):
            yield from deeper.items()
        elif next(part.parameters(), None) is not None:
            yield inner, type(part).__name__.lower()


def _role(name: str, module: nn.Module) -> str | None:
    words = (name.lower(), type(module).__name__.lower())
    if not _has_children(module):
        return NORM if any(map(_NORM.search, words)) else None
    for role, pattern in ((ATTENTION, _ATTENTION), (MLP, _MLP)):
        if any(map(pattern.search, words)):
            return role
    return None


def _members(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return list(module.named_children())


def _has_children(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


def _join(name: str, child: str) -> str:
    return f"{name}.{child}" if name else child
