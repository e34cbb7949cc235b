"""Families of generators: one colour and one marker each, the same in every plot."""

from __future__ import annotations

from collections.abc import Sequence

from bench.placement import generators

NONE = generators.NONE_FAMILY
OTHER = "other"
FAMILIES = (*generators.FAMILIES, OTHER)


def family_of(labels: Sequence[str]) -> str:
    """The family of the first generator that is known; a placement may have been yielded by several."""
    return next((family for family in map(generators.family_of, labels) if family in FAMILIES), OTHER)
