"""Families of generators: one colour and one marker each, the same in every plot."""

from __future__ import annotations

from collections.abc import Sequence

from bench.placement import generators

NONE = generators.NONE_FAMILY
PLANNED, PEER = generators.PLANNED_FAMILY, generators.PEER_FAMILY
OTHER = "other"
FAMILIES = (*generators.FAMILIES, OTHER)


def family_of(labels: Sequence[str]) -> str:
    """The family of the first generator that is known; a placement may have been yielded by several."""
    return next((family for family in map(generators.family_of, labels) if family in FAMILIES), OTHER)


def mark_scale(family: str) -> float:
    """Width of its mark over that of other families: a star fills less of its square."""
    return 1.5 if family == PLANNED else 1.0
