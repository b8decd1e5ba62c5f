"""Recognising disambiguation pages by the templates that mark them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Text that MediaWiki does not expand. One that is never closed hides the rest of the page, which keeps this linear.
_LITERAL = re.compile(
    r"<!--.*?(?:-->|\Z)|<(nowiki|pre|syntaxhighlight|source)\b[^<>]*+>.*?(?:</\1\s*+>|\Z)", re.I | re.S
)
_PREFIX = r"(?:(?:template|テンプレート|t)[ _]*+:)?"
# What may precede the template on its line: other templates, links (to categories, other wikis), switches.
_BEFORE = r"(?:[ \t\u3000]++|\{\{[^{}\n]*+\}\}|\[\[[^\[\]\n]*+\]\]|__[^\W_]++__)"


class Disambiguation:
    """Tells disambiguation pages from articles.

    A page is one if a marking template begins a line of it, with nothing before it on that line but other templates and
    links, or if it holds `__DISAMBIG__`. A template inside a sentence, a comment or `<nowiki>` marks nothing: notices
    such as `{{要曖昧さ回避}}` (link needs disambiguation) stand in the middle of articles.

    Args:
        names: the marking templates' names and redirects; case is free, as are spaces and underscores.
    """

    def __init__(self, names: Iterable[str]) -> None:
        spelled = "|".join(re.escape(name).replace(r"\ ", "[ _]+") for name in sorted(names))
        template = rf"\{{\{{\s*+{_PREFIX}\s*+(?:{spelled or '(?!)'})\s*+[|}}]"
        self._somewhere = re.compile(rf"{template}|__DISAMBIG__", re.I)
        self._as_block = re.compile(rf"^(?>(?:(?!{template}){_BEFORE})*)({template})|(__DISAMBIG__)", re.I | re.M)

    def marker(self, wikitext: str) -> str:
        """Return the template (its beginning) or the switch that marks a page, or "" for an article."""
        if not self._somewhere.search(wikitext):
            return ""
        found = self._as_block.search(_LITERAL.sub("", wikitext))
        return (found[1] or found[2]) if found else ""
