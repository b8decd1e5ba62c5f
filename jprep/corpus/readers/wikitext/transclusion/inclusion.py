"""The part of a template page that its transclusion shows."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.transclusion.elements import ElementEnds

_ONLY = re.compile(r"<onlyinclude>(.*?)(?:</onlyinclude>|\Z)", re.S | re.I)
_TAG = re.compile(
    r"<(?:(?P<comment>!--)|(?P<literal>nowiki|pre|syntaxhighlight|source|math)(?=[\s/>])[^>]{0,300}>|"
    r"(?P<hidden>noinclude)\s*>|/?(?:noinclude|includeonly|onlyinclude)\s*/?>)",
    re.I,
)


def transcluded_part(text: str) -> str:
    """Return what a template page shows on other pages, without comments.

    `<noinclude>` is removed with its content. If there is an `<onlyinclude>`, only its content is kept. A comment that
    fills a line is removed with the line. Time is linear in the text.
    """
    if "<onlyinclude>" in text:
        text = "".join(_ONLY.findall(text))
    ends, out, done = ElementEnds(text), list[str](), 0
    while match := _TAG.search(text, done):
        out.append(text[done : match.start()])
        kind = match.lastgroup
        name = "!--" if kind == "comment" else "" if kind is None else match[kind].lower()
        done = match.end() if not name or match[0].endswith("/>") else ends.find(name, match.end())
        if kind == "literal":
            out.append(text[match.start() : done])
        elif kind == "comment":
            done = _after_comment(text, match.start(), done, out)
    return "".join((*out, text[done:]))


def _after_comment(text: str, start: int, end: int, out: list[str]) -> int:
    """Remove the blanks around a comment that fills its line; return where the text continues."""
    before = start
    while before and text[before - 1] in " \t":
        before -= 1
    if not before or text[before - 1] != "\n":
        return end
    after = end
    while text[after : after + 1] in (" ", "\t"):
        after += 1
    if text[after : after + 1] != "\n":
        return end
    out[-1] = out[-1].rstrip(" \t")
    return after + 1
