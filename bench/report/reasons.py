"""Why a placement is not scored, as short as a table or a picture has room for; the records hold the whole."""

from __future__ import annotations

import re

CHARACTERS_MAX = 160
CLAUSE_END = re.compile(r"(?<=[.;,]) ")


def brief(reason: str) -> str:
    """On one line; of one that is too long, as many whole clauses as there is room for."""
    text = " ".join(reason.split())
    if len(text) <= CHARACTERS_MAX:
        return text
    ends = [found.start() for found in CLAUSE_END.finditer(text[: CHARACTERS_MAX - 1])]
    return f"{text[: ends[-1]]} …" if ends else f"{text[: CHARACTERS_MAX - 1]}…"
