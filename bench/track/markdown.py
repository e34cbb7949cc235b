"""Text from records in the Markdown that MLflow shows: always as itself, never as markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

MAX_SHOWN = 120
"""Characters of a name or reason that a table shows; the whole text is in the run of the placement."""
# MLflow renders GitHub's dialect, in which a bare address, www.name and @name become links.
LINKS = ((re.compile("://"), "&#58;//"), (re.compile(r"\bwww\."), "www&#46;"), (re.compile(r"(?<!\S)@"), "&#64;"))


def escape(text: str, limit: int | None = MAX_SHOWN) -> str:
    """`text` as itself in Markdown, table cells included: no markup, HTML or line breaks; visibly cut to `limit`."""
    shown = " ".join(text.split())
    shown = shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"
    marked = re.sub(r"([\\`*_\[\]()#!|~$])", r"\\\1", shown.replace("&", "&amp;"))
    marked = marked.replace("<", "&lt;").replace(">", "&gt;")
    for pattern, plain in LINKS:
        marked = pattern.sub(plain, marked)
    return marked


def code(line: str) -> str:
    """An indented block: on one line, so nothing in it can end it."""
    return f"    {line}"


def figure(alternative: str, artifact: str, run_id: str) -> str:
    """A picture among the artifacts of run `run_id`, by the address that MLflow's own UI takes artifacts from.

    It is relative to the page, so no server's name is needed, and whoever may not see the run sees no picture.
    """
    return f"![{escape(alternative)}](get-artifact?path={quote(artifact, safe='')}&run_uuid={quote(run_id)})"


def link(text: str, address: str) -> str:
    return f"[{escape(text)}]({address})"


def cut(lines: Sequence[str], limit: int, rest: str) -> str:
    """The whole lines that fit `limit` characters, and `rest` where any are left out."""
    text = "\n".join(lines)
    if len(text) <= limit:
        return text
    taken: list[str] = []
    room = limit - len(rest)
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    return "\n".join(taken) + rest
