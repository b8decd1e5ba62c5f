"""External links in single square brackets: `[http://example.org label]` shows its label."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.placeholders import DROPPED

_WITH_SLASHES = "https?|s?ftps?|ircs?|gopher|telnet|nntp|worldwind|svn|git|ssh|mms|redis"
_WITHOUT_SLASHES = "mailto|news|urn|tel|geo|magnet|xmpp|sips?|sms|bitcoin|matrix"
URL_SCHEME = rf"(?:(?:(?:{_WITH_SLASHES}):)?//|(?:{_WITHOUT_SLASHES}):)"
"""How the URLs begin that MediaWiki knows, as a pattern for case-insensitive use."""

# Two apostrophes end a URL, being italic; an IPv6 address may stand in brackets.
_URL = rf"{URL_SCHEME}(?![\s\]])(?:\[[0-9a-f:.]++\])?[^\s\[\]<>\"']*+(?:'(?!')[^\s\[\]<>\"']*+)*"
_LONGEST_LABEL = 300  # characters: a bound on what is read again for each of many brackets that never close
_LINK = re.compile(rf"\[{_URL}[ \t\u3000\u00a0]*+([^\]\n]{{0,{_LONGEST_LABEL}}}+)\]", re.I)


def replace_external_links(text: str) -> str:
    """Replace each external link by its label; a link without one, which a reader sees as a number, is dropped."""
    pieces = _LINK.split(text)
    if len(pieces) > 1:
        pieces[1::2] = [label or DROPPED for label in pieces[1::2]]
        return "".join(pieces)
    return text
