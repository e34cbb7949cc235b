"""Families of generators: one colour and one marker each, the same in every plot."""

from __future__ import annotations

import re
from collections.abc import Sequence

NONE = "none"
OTHER = "other"

# The words are those of `bench.placement.generators`; the first pattern that matches names the family.
PATTERNS = (
    (NONE, r"^none$"),
    ("every block", r"^every block$"),
    ("every k-th block", r"^every \d+\. block$"),
    ("leading blocks", r"^first |^all but"),
    ("submodules", r" of every block$"),
    ("policies", r"^every block, keeping "),
    ("nested spans", r"nested spans$"),
    ("spans", r"spans$"),
    ("checkpoint options", r"^every block, "),
    ("planned", r"plan"),
    ("explicit", r"explicit"),
)
FAMILIES = (*(name for name, _ in PATTERNS), OTHER)


def family_of(generators: Sequence[str]) -> str:
    """The family of the first generator whose words are known; a placement may have been yielded by several."""
    for words in generators:
        for name, pattern in PATTERNS:
            if re.search(pattern, words):
                return name
    return OTHER
