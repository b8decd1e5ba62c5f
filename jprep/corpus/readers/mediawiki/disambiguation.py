"""Detect disambiguation pages by the templates that mark them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Text that MediaWiki does not expand. An unclosed element hides the rest of the page, which keeps the search linear.
_LITERAL = re.compile(
    r"<!--.*?(?:-->|\Z)|<(nowiki|pre|syntaxhighlight|source)\b[^<>]*+>.*?(?:</\1\s*+>|\Z)", re.I | re.S
)
_PREFIX = r"(?:(?:template|テンプレート|t)[ _]*+:)?"
# What may precede the template on its line: other templates, links (to categories, other wikis), behavior switches.
_BEFORE = r"(?:[ \t\u3000]++|\{\{[^{}\n]*+\}\}|\[\[[^\[\]\n]*+\]\]|__[^\W_]++__)"


class DisambiguationDetector:
    """Distinguishes disambiguation pages from articles.

    A disambiguation page contains `__DISAMBIG__`, or a marking template at the beginning of a line, after other
    templates and links at most. A template inside a sentence, a comment or `<nowiki>` has no effect, since notices such
    as `{{要曖昧さ回避}}` (link needs disambiguation) occur in articles.

    Args:
        names: names and redirects of the marking templates. Case is ignored; spaces and underscores are equal.
    """

    def __init__(self, names: Iterable[str]) -> None:
        spelled = "|".join(re.escape(name).replace(r"\ ", "[ _]+") for name in sorted(names))
        template = rf"\{{\{{\s*+{_PREFIX}\s*+(?:{spelled or '(?!)'})\s*+[|}}]"
        self._somewhere = re.compile(rf"{template}|__DISAMBIG__", re.I)
        self._as_block = re.compile(rf"^(?>(?:(?!{template}){_BEFORE})*)({template})|(__DISAMBIG__)", re.I | re.M)

    def marker(self, wikitext: str) -> str:
        """Return the beginning of the template, or the switch, that marks a page; "" for an article."""
        if not self._somewhere.search(wikitext):
            return ""
        found = self._as_block.search(_LITERAL.sub("", wikitext))
        return (found[1] or found[2]) if found else ""
