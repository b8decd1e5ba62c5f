"""What a browser would make of a fragment of HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HARMLESS = {
    "b", "circle", "code", "details", "div", "path", "polyline", "rect", "span", "summary", "svg", "table", "tbody",
    "td", "text", "th", "thead", "title", "tr", "wbr",
}  # fmt: skip
VOID = {"wbr", "rect", "path", "polyline", "circle"}
ATTRIBUTES = {"style", "title", "open", "scope", "lang", "aria-hidden", "role"}
"""Attributes of elements outside an SVG."""


class Fragment(HTMLParser):
    """Text and tags of a fragment; asserts that it is balanced and harmless."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.text, self.tags, self._open = "", list[str](), list[str]()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", markup)
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in HARMLESS, tag
        assert "svg" in [tag, *self._open] or {name for name, _ in attributes} <= ATTRIBUTES
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
