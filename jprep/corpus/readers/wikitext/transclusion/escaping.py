"""Escape the separators of an expanded text that stands in the argument of another template."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.placeholders import EQUALS, PIPE

_SIGN = re.compile(r"(?P<open>\[\[|\{\{+|\{\|)|(?P<close>\]\]|\}\}+|\|\})|(?P<pipe>\|)|(?P<equals>=)")


def escape_separators(text: str) -> str:
    """Replace the `|` and `=` outside of links, braces and tables, which would separate arguments."""
    if "|" not in text and "=" not in text:
        return text
    depth, out, done = 0, list[str](), 0
    for sign in _SIGN.finditer(text):
        kind = sign.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
        elif not depth:
            out += text[done : sign.start()], PIPE if kind == "pipe" else EQUALS
            done = sign.end()
    return "".join((*out, text[done:]))
