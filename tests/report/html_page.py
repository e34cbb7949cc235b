"""Reads what a page holds, as tests ask for it."""

from __future__ import annotations

import html.parser
import json
from typing import Any

VOID = frozenset({"meta", "input", "br", "link", "img"})


class Page(html.parser.HTMLParser):
    """All tags in order, texts by the id of the element that they are in, and the cells of each table's body."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self._open: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in VOID:
            return
        table = self._table()
        self._open.append((tag, attributes.get("id")))
        if tag == "tr" and table:
            self.rows.setdefault(table, []).append([])
        elif tag in ("td", "th") and table:
            self.rows[table][-1].append("")
        elif tag == "style":
            self.styles.append("")
        elif tag == "script" and "type" not in attributes:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, identity in self._open:
            if identity:
                self.texts[identity] = self.texts.get(identity, "") + data
        inside = [tag for tag, _ in self._open]
        table = self._table()
        if table and inside[-1] in ("td", "th"):
            self.rows[table][-1][-1] += data
        elif inside[-1:] == ["style"]:
            self.styles[-1] += data
        elif inside[-1:] == ["script"] and self._open[-1][1] is None:
            self.scripts[-1] += data

    @property
    def data(self) -> Any:
        """What the page's program reads."""
        return json.loads(self.texts["data"])

    @property
    def policy(self) -> str:
        (policy,) = [attributes["content"] for _, attributes in self.tags if "http-equiv" in attributes]
        assert policy is not None
        return policy

    def _table(self) -> str | None:
        return next((identity for tag, identity in reversed(self._open) if tag == "table"), None)
