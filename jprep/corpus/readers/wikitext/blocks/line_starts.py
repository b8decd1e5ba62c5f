"""Resolve beginnings of lines before links and tags: definition lists, and text that could be mistaken for a list."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.html.tags import BLOCK_TAG
from jprep.corpus.readers.wikitext.inline.external_links import URL_SCHEME
from jprep.corpus.readers.wikitext.placeholders import EMPTY

_PLAIN = re.compile(r"[\d\s\x80-\U0010ffff]++(?=:)")  # no nested mark-up and no URL scheme before the colon
_VOID = frozenset(("br", "hr", "wbr"))
_TOKEN = re.compile(
    rf"(?P<open>\[\[|\{{\{{|-\{{|\[(?={URL_SCHEME}))|(?P<close>\]\]|\}}\}}|\}}-|\])|"
    rf"<(?P<end>/?)(?P<tag>[a-z][^\s<>/]*)[^<>]*>|(?P<quotes>''+)|(?<![a-z]){URL_SCHEME}[^\s<>\[\]\"]+|(?P<colon>:)",
    re.I,
)
# One pass for three kinds of lines. A lookalike begins with apostrophes, a tag or a link, followed by a character that
# marks a list or heading only at the beginning of a line.
_LINE = re.compile(
    r"\n(?:(?P<term>[*#:]*+;[*#:;]*+)[^\n]*+|(?P<heading>=[^\n<]*+<[^\n]*+)|"
    r"(?P<lookalike>(?:''|<[a-zA-Z/][^<>\n]*+>)(?:<[^<>\n]*+>|'++)*[*#:;=]|"
    r"\[(?:\[(?![Cc]ategory:|カテゴリ:)(?:[^\[\]|\n]*+\||(?![^\[\]|\n]*+\|))|[^\s\[\]]++[ \t]++)[*#:;=|]))"
)


def mark_line_starts(text: str) -> str:
    """Resolve beginnings of lines that would change their meaning when links and tags are resolved.

    Each definition is moved to a line of its own, block tags are removed from headings, and text that would become a
    list item or heading is protected by an empty literal.
    """
    return _LINE.sub(_marked, text)


def _marked(line: re.Match[str]) -> str:
    if line["term"]:
        return _term(line[0], line.end("term") - line.start())
    if line["heading"]:
        return BLOCK_TAG.sub(" ", line[0])
    return f"\n{EMPTY}{line['lookalike']}"


def _term(line: str, start: int) -> str:
    """Split a `;` line at the colon of the definition: the first one outside links, URLs, tags, bold and italic."""
    if ":" not in line:
        return line
    if plain := _PLAIN.match(line, start):
        return f"{line[: plain.end()]}\n;{line[plain.end() + 1 :]}"
    depth = 0
    bold = italic = False
    for token in _TOKEN.finditer(line, start):
        kind = token.lastgroup
        if kind == "colon":
            if not (depth or bold or italic):
                return f"{line[: token.start()]}\n;{line[token.end() :]}"
        elif kind == "quotes":
            bold ^= len(token[0]) > 2
            italic ^= len(token[0]) != 3 and len(token[0]) != 4
        elif kind == "open" or (kind == "tag" and not token["end"] and token["tag"].lower() not in _VOID):
            depth += not token[0].endswith("/>")
        elif kind == "close" or token["end"]:
            depth = max(0, depth - 1)
    return line
