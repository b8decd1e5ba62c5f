"""The beginnings of lines, before links and tags are resolved: definition lists, and text that looks like a list."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.marks import EMPTY
from jprep.corpus.readers.wikitext.urls import SCHEME

_TERM = re.compile(r"(\n[*#:]*+;[*#:;]*+)[^\n]*+")
_PLAIN = re.compile(r"(?:[^\x00-\x7f]|[\d\s])++(?=:)")  # before the colon nothing that nests, and no scheme of a URL
_VOID = frozenset(("br", "hr", "wbr"))
_TOKEN = re.compile(
    rf"(?P<open>\[\[|\{{\{{|-\{{|\[(?={SCHEME}))|(?P<close>\]\]|\}}\}}|\}}-|\])|"
    rf"<(?P<end>/?)(?P<tag>[a-z][^\s<>/]*)[^<>]*>|(?P<quotes>''+)|(?<![a-z]){SCHEME}[^\s<>\[\]\"]+|(?P<colon>:)",
    re.I,
)
# Lines that begin with apostrophes, a tag or a link, and then with a sign that means a list or a heading only where it
# comes first. Three patterns, because `re` searches for the fixed characters at the head of each, which is far faster.
_LOOKALIKES = (
    re.compile(r"\n(''(?:<[^<>\n]*+>|'++)*+[*#:;=])"),
    re.compile(r"\n(<[a-zA-Z/][^<>\n]*+>(?:<[^<>\n]*+>|''++)*+[*#:;=])"),
    re.compile(r"\n(\[(?:\[(?![Cc]ategory:|カテゴリ:)(?:[^\[\]|\n]*+\|)?+|[^\s\[\]]++[ \t]++)[*#:;=|])"),
)


def mark_line_starts(text: str) -> str:
    """Put each definition on a line of its own, and keep text at the beginning of a line from being read as a list."""
    if ";" in text:
        text = _TERM.sub(_term, text)
    for lookalike in _LOOKALIKES:
        text = lookalike.sub(rf"\n{EMPTY}\1", text)
    return text


def _term(match: re.Match[str]) -> str:
    """A `;` line, cut at the colon of the definition: the first one outside links, URLs, tags, bold and italic."""
    line, depth = match[0], 0
    if ":" not in line:
        return line
    if plain := _PLAIN.match(line, len(match[1])):
        return f"{line[: plain.end()]}\n;{line[plain.end() + 1 :]}"
    bold = italic = False
    for token in _TOKEN.finditer(line, len(match[1])):
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
