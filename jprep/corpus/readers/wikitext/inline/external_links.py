"""Replace external links in single square brackets by their labels: `[http://example.org label]` shows `label`."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.inline.categories import without_category_prefix
from jprep.corpus.readers.wikitext.placeholders import DROPPED, EMPTY

_WITH_SLASHES = "https?|s?ftps?|ircs?|gopher|telnet|nntp|worldwind|svn|git|ssh|mms|redis"
_WITHOUT_SLASHES = "mailto|news|urn|tel|geo|magnet|xmpp|sips?|sms|bitcoin|matrix"
URL_SCHEME = rf"(?:(?:(?:{_WITH_SLASHES}):)?//|(?:{_WITHOUT_SLASHES}):)"
"""Pattern of the beginnings of URLs that MediaWiki recognizes, to be used case-insensitively."""

# Two apostrophes end a URL, since they mark italic. An IPv6 address is in square brackets.
_URL = rf"{URL_SCHEME}(?![\s\]])(?:\[[0-9a-f:.]++\])?[^\s\[\]<>\"']*+(?:'(?!')[^\s\[\]<>\"']*+)*"
_MAX_LABEL = 300  # characters: limits the time for many unclosed brackets
_ENDS_IN_BRACKETS = re.compile(rf"\[(?!\[)[^\[\]\n]{{0,{_MAX_LABEL}}}+\]\]")
_BRACKETS_IN_LABEL = re.compile(
    rf"\[(?<!\[\[){_URL}[^\[\]\n]{{0,{_MAX_LABEL}}}+\[[^\[\]\n]{{0,{_MAX_LABEL}}}+\](?=\])", re.I
)
_LINK = re.compile(rf"\[{_URL}[ \t\u3000\u00a0]*+([^\]\n]{{0,{_MAX_LABEL}}}+)\]", re.I)


def separate_closing_brackets(text: str) -> str:
    """Separate the `]]` at the end of an external link whose label ends in brackets: it closes no link to a page."""
    if "]]" not in text or not _ENDS_IN_BRACKETS.search(text):  # a fast search, rarely successful
        return text
    return _BRACKETS_IN_LABEL.sub(lambda link: link[0] + EMPTY if _LINK.fullmatch(link[0]) else link[0], text)


def replace_external_links(text: str) -> str:
    """Replace each external link by its label. Links without a label, which browsers show as a number, are dropped."""
    pieces = _LINK.split(text)
    if len(pieces) > 1:
        pieces[1::2] = [without_category_prefix(label) or DROPPED for label in pieces[1::2]]
        return "".join(pieces)
    return text
