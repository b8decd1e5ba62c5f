"""Remove the contents of elements that a browser does not show."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

INVISIBLE_STYLES = r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*hidden)(?![\w-])"
"""Pattern of the styles that hide an element."""

_STYLE = re.compile(rf"(?<![\w-])style\s*=\s*[\"']?[^\"'<>{{}}]*?{INVISIBLE_STYLES}", re.I)
_VALUE = re.compile(r":\s*+(?:none|hidden)", re.I)  # a fast search, which few pages pass
_MAX_ATTRIBUTES = 512  # characters that are searched: a pattern may begin at each of them
_NAMES = (
    "div|span|table|tr|td|th|ul|ol|li|dl|dd|dt|p|small|big|sup|sub|b|i|u|s|strong|em|font|center|blockquote|abbr|cite"
)
_ENDED_BY_PARAGRAPH = frozenset(("span", "sup", "sub", "abbr", "cite"))
# A browser continues `<b>` and the like in the next paragraph; these end with the paragraph that they are in.
_TAG_OR_SIGN = re.compile(
    rf"<(/?)({_NAMES})(?=[\s/>])([^<>]*)>"
    r"|(?P<opening>\{[{|]|\[\[)|(?P<closing>\}\}|\|\}(?!\})|\]\])|(?P<paragraph>\n(?:[ \t]*\n|=))",
    re.I,
)


class _Place:
    """A place in a text: the template, link or table around it, and the paragraph."""

    def __init__(self) -> None:
        self._around, self._opened, self._paragraph = [0], 0, 0

    def pass_sign(self, kind: str) -> None:
        """Continue after a sign: `opening` or `closing` of a template, link or table, or the end of a `paragraph`."""
        if kind == "paragraph":
            self._paragraph += 1
        elif kind == "opening":
            self._opened += 1
            self._around.append(self._opened)
        elif len(self._around) > 1:
            self._around.pop()

    def of(self, name: str) -> tuple[int, int]:
        """Return what must be the same at both tags of an element."""
        return self._around[-1], self._paragraph if name in _ENDED_BY_PARAGRAPH else 0


class _Open(NamedTuple):
    """An open element.

    Attributes:
        start: offset of its tag.
        place: where its tag is.
        hidden: whether a style hides it.
    """

    start: int
    place: tuple[int, int]
    hidden: bool


def remove_invisible(text: str) -> tuple[str, int]:
    """Empty the elements with `display: none` or `visibility: hidden`: sort keys, notes for editors, padding.

    Their tags stay, without attributes, since they may end a paragraph. An element that is never closed, or closed in
    another template, link or table than opened, or in another paragraph, is left as it is. Time is linear in the text.

    Returns:
        The text, and the number of emptied elements. Those within another are not counted.
    """
    if not _VALUE.search(text):
        return text, 0
    out, done, count = list[str](), 0, 0
    for start, end, name in _outermost(_invisible_elements(text)):
        out += text[done:start], f"<{name}></{name}>"
        done, count = end, count + 1
    return "".join((*out, text[done:])), count


def _invisible_elements(text: str) -> list[tuple[int, int, str]]:
    """Return start, end and name of each hidden element."""
    found, place = list[tuple[int, int, str]](), _Place()
    opened = defaultdict[str, list[_Open]](list)
    for match in _TAG_OR_SIGN.finditer(text):
        if not match[2]:
            place.pass_sign(str(match.lastgroup))
            continue
        name = match[2].lower()
        if match[1]:
            if opened[name] and (element := opened[name].pop()).hidden and element.place == place.of(name):
                found.append((element.start, match.end(), name))
        elif not match[3].endswith("/"):
            hidden = bool(_STYLE.search(match[3], 0, _MAX_ATTRIBUTES))
            opened[name].append(_Open(match.start(), place.of(name), hidden))
    return found


def _outermost(elements: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the elements that are not within another one, in order."""
    kept: list[tuple[int, int, str]] = []
    for element in sorted(elements):
        if not kept or element[0] >= kept[-1][1]:
            kept.append(element)
    return kept
