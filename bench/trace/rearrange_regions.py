"""Where a placement's regions begin among the items of a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from bench.placement.policy import OP_GROUPS
from bench.placement.types import Placement, Region
from bench.trace.rearrange_script import Call, CannotRearrangeError, Script


@dataclass(frozen=True, slots=True, eq=False)
class RegionCall:
    """One call of a region: of its unit, or of a span's members."""

    region: Region
    members: tuple[Call, ...]

    @property
    def boundary(self) -> tuple[int, ...]:
        return self.members[0].boundary


@dataclass(frozen=True, slots=True)
class Entry:
    """A region that a call of a module belongs to."""

    call: RegionCall
    member: int
    """0 where the region begins; the later members of a span are answered with what is there already."""


Entries = Mapping[int, Sequence[Entry]]
"""Item at which a module is entered → the regions that its call belongs to, outermost first."""


def entries_of(script: Script, placement: Placement) -> Entries:
    """Raises CannotRearrangeError for a region that is replayed otherwise than by what the plain step shows."""
    entries: dict[int, list[Entry]] = {}
    for region in sorted(placement.regions, key=placement.depth):
        _check(region)
        calls = [[call for call in script.calls.get(unit, ()) if call.with_gradients] for unit in region.units]
        if len({len(of_unit) for of_unit in calls}) > 1:
            raise CannotRearrangeError(f"the units of span {region} are not called equally often")
        for members in zip(*calls, strict=True):
            if members[0].given_cache:
                raise CannotRearrangeError(f"{region} is given a cache of keys and values")
            call = RegionCall(region, members)
            for number, member in enumerate(members):
                entries.setdefault(member.enter, []).append(Entry(call, number))
    return entries


def _check(region: Region) -> None:
    if region.options.reentrant:
        raise CannotRearrangeError(f"{region}: a reentrant region has a backward of its own")
    if region.options.restore:
        raise CannotRearrangeError(f"{region}: what @restore copies hangs on which state moves")
    for kept in region.keeps:
        packet = getattr(torch.ops.aten, kept.op, None)
        if kept.op not in OP_GROUPS and packet is not None and _is_view(packet):
            raise CannotRearrangeError(f"{region}: the log leaves out views, and {kept.op} is one")


def _is_view(packet: torch._ops.OpOverloadPacket) -> bool:
    schemas = (getattr(packet, overload)._schema for overload in packet.overloads())
    return any(
        returned.alias_info is not None and not returned.alias_info.is_write
        for schema in schemas
        for returned in schema.returns
    ) or packet._qualified_op_name in ("aten::_unsafe_view", "aten::_reshape_alias")
