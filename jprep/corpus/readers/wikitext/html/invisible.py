"""Remove the contents of elements that a browser does not show."""

from __future__ import annotations

import re

INVISIBLE_STYLES = r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*hidden)(?![\w-])"
"""Pattern of the styles that hide an element."""

_STYLE = re.compile(rf"style\s*=\s*[\"']?[^\"'<>{{}}]*?{INVISIBLE_STYLES}", re.I)
_VALUE = re.compile(r":\s*+(?:none|hidden|NONE|HIDDEN)")  # a fast search, which few pages pass
_MAX_ATTRIBUTES = 512  # characters that are searched: a pattern may begin at each of them
_NAMES = (
    "div|span|table|tr|td|th|ul|ol|li|dl|dd|dt|p|small|big|sup|sub|b|i|u|s|strong|em|font|center|blockquote|abbr|cite"
)
_TAG_OR_SIGN = re.compile(rf"<(/?)({_NAMES})(?=[\s/>])([^<>]*)>|(\{{[{{|]|\[\[)|[}}|]\}}|\]\]", re.I)


class _Open:
    """An open element.

    Attributes:
        start: offset of its tag.
        level: number of templates, links and tables around it.
        hidden: whether a style hides it.
    """

    __slots__ = ("hidden", "level", "start")

    def __init__(self, start: int, level: int, hidden: bool) -> None:
        self.start, self.level, self.hidden = start, level, hidden


def remove_invisible(text: str) -> tuple[str, int]:
    """Empty the elements with `display: none` or `visibility: hidden`: sort keys, notes for editors, padding.

    Their tags stay, without attributes, since they may end a paragraph. An element that is never closed, or closed in
    another template, link or table than opened, is left as it is. Time is linear in the text.

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
    found: list[tuple[int, int, str]] = []
    opened: dict[str, list[_Open]] = {}
    level = 0
    for match in _TAG_OR_SIGN.finditer(text):
        if not match[2]:
            level += 1 if match[4] else -1
            continue
        name = match[2].lower()
        stack = opened.setdefault(name, [])
        if not match[1]:
            if not match[3].endswith("/"):
                hidden = bool(_STYLE.search(match[3], 0, _MAX_ATTRIBUTES))
                stack.append(_Open(match.start(), level, hidden))
        elif stack and (element := stack.pop()).hidden and element.level == level:
            found.append((element.start, match.end(), name))
    return found


def _outermost(elements: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the elements that are not within another one, in order."""
    kept: list[tuple[int, int, str]] = []
    for element in sorted(elements):
        if not kept or element[0] >= kept[-1][1]:
            kept.append(element)
    return kept
