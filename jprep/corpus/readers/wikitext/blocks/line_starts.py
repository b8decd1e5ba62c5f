"""The beginnings of lines, before links and tags are resolved: definition lists, and text that looks like a list."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.html.tags import BLOCK_TAG
from jprep.corpus.readers.wikitext.inline.external_links import URL_SCHEME
from jprep.corpus.readers.wikitext.placeholders import EMPTY

_PLAIN = re.compile(r"[\d\s\x80-\U0010ffff]++(?=:)")  # before the colon nothing that nests, and no scheme of a URL
_VOID = frozenset(("br", "hr", "wbr"))
_TOKEN = re.compile(
    rf"(?P<open>\[\[|\{{\{{|-\{{|\[(?={URL_SCHEME}))|(?P<close>\]\]|\}}\}}|\}}-|\])|"
    rf"<(?P<end>/?)(?P<tag>[a-z][^\s<>/]*)[^<>]*>|(?P<quotes>''+)|(?<![a-z]){URL_SCHEME}[^\s<>\[\]\"]+|(?P<colon>:)",
    re.I,
)
# One pass for three kinds of lines. A lookalike begins with apostrophes, a tag or a link, and then with a sign that
# means a list or a heading only where it comes first.
_LINE = re.compile(
    r"\n(?:(?P<term>[*#:]*+;[*#:;]*+)[^\n]*+|(?P<heading>=[^\n<]*+<[^\n]*+)|"
    r"(?P<lookalike>(?:''|<[a-zA-Z/][^<>\n]*+>)(?:<[^<>\n]*+>|'++)*[*#:;=]|"
    r"\[(?:\[(?![Cc]ategory:|カテゴリ:)(?:[^\[\]|\n]*+\||(?![^\[\]|\n]*+\|))|[^\s\[\]]++[ \t]++)[*#:;=|]))"
)


def mark_line_starts(text: str) -> str:
    """Resolve what the beginning of a line decides and what would be hidden once links and tags are resolved.

    Each definition gets a line of its own, a heading loses the tags of blocks in it, and other text at the beginning of
    a line is kept from being read as a list.
    """
    return _LINE.sub(_marked, text)


def _marked(line: re.Match[str]) -> str:
    if line["term"]:
        return _term(line[0], line.end("term") - line.start())
    if line["heading"]:
        return BLOCK_TAG.sub(" ", line[0])
    return f"\n{EMPTY}{line['lookalike']}"


def _term(line: str, start: int) -> str:
    """A `;` line, cut at the colon of the definition: the first one outside links, URLs, tags, bold and italic."""
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
