"""Remove elements of expanded templates that are no running text: boxes, notes, and what a browser does not show."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.html.invisible import INVISIBLE_STYLES
from jprep.corpus.readers.wikitext.placeholders import DROPPED

_CLASSES = (
    "(?:vertical-)?navbox|navbar|sidebar|infobox|[acfiot]?mbox|metadata|noprint|noexcerpt|nomobile|hatnote|dablink|"
    "rellink|side-?box|sister(?:project|sitebox|linksbox)|asbox|stub|notice|navigation-not-searchable|"
    "toc(?:right|box|limit|colours)?|(?:float|t)(?:right|left)|thumb|gallery|reflist|references?|error|mw-empty-elt"
)
"""Classes that the Japanese and the English Wikipedia give to boxes, notes, pictures and what is not printed."""

_STYLES = rf"{INVISIBLE_STYLES}|float\s*:\s*(?:right|left)"
_HIDDEN = re.compile(
    rf"class\s*=\s*(?:\"[^\"<>]*?|'[^'<>]*?|)(?<![\w-])(?:{_CLASSES})(?![a-z0-9])|"
    rf"style\s*=\s*[\"']?[^\"'<>]*?(?:{_STYLES})|role\s*=\s*[\"']?(?:navigation|note)\b",
    re.I,
)
_MAX_ATTRIBUTES = 512  # characters that are searched: a pattern may begin at each of them
_NAMES = "div|span|table|tr|td|th|ul|ol|li|dl|dd|dt|p|small|sup|sub|b|i|strong|em|center|blockquote|figure|section"
_OPENER = re.compile(rf"<({_NAMES})\b([^<>]*)>|(?<![^\n])[ \t:]*\{{\|([^\n]*)", re.I)
_TABLE = re.compile(r"(?<![^\n])[ \t:]*(?:(\{\|)|\|\}(?!\}))")


def remove_hidden(text: str) -> str:
    """Return the text of a template without elements that are not part of an article's text.

    An element is removed by its class (`navbox`, `ambox`, `noprint`, …), its role, or a style that hides it or floats
    it beside the text, with its content; one that is never closed, with the rest of the text. So are tables of
    wikitext. Time is linear in the text.
    """
    out, done = list[str](), 0
    while match := _OPENER.search(text, done):
        attributes = match[2] if match[1] else match[3]
        if attributes and not attributes.endswith("/") and _HIDDEN.search(attributes, 0, _MAX_ATTRIBUTES):
            out += text[done : match.start()], DROPPED
            done = _element_end(text, match[1], match.end()) if match[1] else _table_end(text, match.end())
        else:
            out.append(text[done : match.end()])
            done = match.end()
    return "".join((*out, text[done:])) if done else text


def _element_end(text: str, name: str, start: int) -> int:
    """Return the offset after the closing tag that belongs to an element."""
    depth = 1
    for tag in re.compile(rf"<(/?){name}\b([^<>]*)>", re.I).finditer(text, start):
        depth += -1 if tag[1] else not tag[2].endswith("/")
        if not depth:
            return tag.end()
    return len(text)


def _table_end(text: str, start: int) -> int:
    """Return the offset after the end of a table."""
    depth = 1
    for sign in _TABLE.finditer(text, start):
        depth += 1 if sign[1] else -1
        if not depth:
            return sign.end()
    return len(text)
