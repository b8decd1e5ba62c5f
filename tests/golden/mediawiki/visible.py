"""Extract the visible text of rendered HTML, without what the extractor omits by design (docs/wikitext.md)."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_VOID = frozenset(("area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))
_BLOCKS = frozenset(
    (
        *("article", "aside", "blockquote", "br", "caption", "center", "dd", "div", "dl", "dt", "figure", "figcaption"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "section", "table", "tbody", "td", "tfoot"),
        *("th", "thead", "tr", "ul"),
    )
)
_LEFT_OUT_TAGS = frozenset(("style", "script", "figure", "audio", "video", "title", "head"))
_LEFT_OUT_CLASSES = re.compile(
    r"\b(?:mw-editsection|editsection|toc|thumb|thumbinner|thumbcaption|gallery|redirectMsg|autonumber|toctitle|"
    r"mw-references-wrap|floatright|floatleft|floatnone|mw-file-description|reference|references)\b"
)
# A link to a file, shown or missing, and the marks that Parsoid gives to both.
_FILE = re.compile(r"\bmw:(?:Image|File|Error mw:File|Error mw:Image|Video|Audio)\b|mw:Extension/ref")
_UPLOAD = re.compile(r"Special:Upload|Special:FilePath")
_PARAMETER = re.compile(r"\{\{\{[^{}|]*\}\}\}")
_BROKEN = re.compile(
    r"\[\[|\]\]|\{\{+|\}\}+|\{\||\|\}|-->|</(?:nowiki|includeonly)>|\b(?:Category|File|Image):|\[\]|\(\)"
)
_HEADING = "\x06"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        hides = _left_out(tag, dict(attrs))
        if tag in _BLOCKS and not hides and not self._hidden:
            self._part()
        if not self._hidden and re.fullmatch(r"h[1-6]", tag):
            self.pieces.append(_HEADING + tag[1])
        if not self._hidden and tag == "rt":
            self.pieces.append("（")
        if tag not in _VOID:
            self._open.append((tag, hides))
            self._hidden += hides

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID or tag not in [name for name, _ in self._open]:
            return
        while self._open:
            name, hides = self._open.pop()
            self._hidden -= hides
            if name in _BLOCKS and not hides and not self._hidden:
                self._part()
            if name == "rt" and not self._hidden:
                self.pieces.append("）")
            if name == tag:
                break

    def _part(self) -> None:
        """Begin a paragraph. A heading is one paragraph with any contents."""
        in_heading = any(re.fullmatch(r"h[1-6]", name) for name, _ in self._open)
        self.pieces.append(" " if in_heading else "\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data.replace("\n", " "))


def _left_out(tag: str, attributes: dict[str, str | None]) -> bool:
    if tag in _LEFT_OUT_TAGS or attributes.get("id") == "toc":
        return True
    if _LEFT_OUT_CLASSES.search(attributes.get("class") or "") or _FILE.search(attributes.get("typeof") or ""):
        return True
    name = attributes.get("title") or ""
    return tag == "a" and name.startswith(("File:", "Image:")) and bool(_UPLOAD.search(attributes.get("href") or ""))


def visible(html: str) -> str:
    """Return the visible text with collapsed white space, without headings of empty sections."""
    reader = _Reader()
    reader.feed(re.sub(r"</?rp>|(?<=<rp>)[^<]*(?=</rp>)", "", html))
    reader.close()
    lines = [line for line in (folded(line) for line in "".join(reader.pieces).split("\n")) if line]
    kept: list[str] = []
    reach = "0"
    for line in reversed(lines):
        if not line.startswith(_HEADING):
            kept.append(line)
            reach = "7"
        elif line[1] < reach:
            reach = line[1]
            kept.append(line[2:])
    return as_extracted(" ".join(kept[::-1]))


def as_extracted(text: str) -> str:
    """Return the text without what the extractor omits by design.

    That is: the signs of broken mark-up, prefixes of shown names, brackets left empty, parameters that nobody gives.
    """
    return folded(_BROKEN.sub("", _PARAMETER.sub("", text)))


def folded(text: str) -> str:
    """Return the text with each run of white space replaced by one space."""
    return " ".join(text.split())
