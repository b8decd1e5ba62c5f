"""Change the HTML of a page where Resiliparse would take Japanese text for something else, and remove it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import islice
from typing import Any

# A text between two tags that is one character of three bytes in UTF-8, or a reference.
_LONE = re.compile(r">[ \t\r\n\f]*+(?:[\u0800-\uffff]|(&#?\w{1,31}+;))(?=[ \t\r\n\f]*+(?:<|\Z))")
_COMPANION = "\U000f0000"  # private use: stands beside such a character
_COMPANION_REFERENCE = re.compile("&#(?:x0*+f0000|0*+983040)", re.IGNORECASE)
_JAPANESE_CLASS = re.compile(r"""(<[^<>]*?\sclass\s*+=\s*+(?:["'](?:[^"'<>]*?\s)?)?)jp(?=["'\s>])""")
# A date that a sentence continues after, as in 「会は<time>3月1日</time>に開く」; others are those of the page itself.
_DATE = re.compile(r"<time(?=[\s>])([^<>]*+>[^<>]*+)</time>(?=[\u3041-\u30ff\u4e00-\u9fff])", re.IGNORECASE)

_OUTER = 3  # levels below the body
_OUTER_LISTS = ", ".join(f"body > {'* > ' * level}ul" for level in range(_OUTER))
_MOST_NODES = 100_000  # looked at, so that huge pages take no more than a second
_LINKED = 0.2  # share of a list's characters in links; Resiliparse uses it for inner lists
_ITEM = 10  # characters of an item, on average: shorter ones without a full stop are those of menus and buttons
_READ = ("class", "id", "hidden", "style", "role", "aria-hidden")  # attributes that Resiliparse looks at
_NOTE = re.compile(
    r"(?:^|[\s_-])(?:admonition|caution|footnote|hint|info|note|tip|warning)s?(?:$|[\s_-])", re.IGNORECASE
)


def mark_lone_characters(html: str) -> tuple[str, str]:
    """Put a mark beside each character that is a whole text between two tags, as の in 「<a>山</a>の<a>道</a>」.

    Resiliparse removes such texts as icons of private use if they have three bytes in UTF-8, which kana and kanji have.

    Returns:
        The page and the mark, which is to be removed from the text: "" for a page that has it already, which is not
        changed.
    """
    if _COMPANION in html or _COMPANION_REFERENCE.search(html):
        return html, ""
    return _LONE.sub(_with_companion, html), _COMPANION


def _with_companion(lone: re.Match[str]) -> str:
    """Return the text with a mark after it, unless it is of private use, as icons are, or needs none."""
    character = unescape(lone[1]) if lone[1] else lone[0][-1]
    of_three_bytes = len(character) == 1 and "\u0800" <= character <= "\uffff"
    return lone[0] + (_COMPANION if of_three_bytes and not "\ue000" <= character <= "\uf8ff" else "")


def keep_names_and_dates(html: str) -> str:
    """Keep elements of the class `jp`, taken for buttons of Jetpack, and dates in sentences, for those of the page."""
    return _DATE.sub(r"<span\1</span>", _JAPANESE_CLASS.sub(r"\1jp.", html))


def keep_lists(tree: Any) -> None:
    """Make lists of text an `ol` that are a `ul` near the body: Resiliparse takes each of these for a menu."""
    if tree.document.query_selector(_OUTER_LISTS) is None:
        return
    lists = [each for each in islice(_outer_nodes(tree.body, _OUTER), _MOST_NODES) if each.tag == "ul"]
    for found in reversed(lists):
        if _is_text(found) and not found.getattr("role") and found.parent.tag not in ("header", "nav"):
            _replace(found, tree.create_element("ol"))


def keep_notes(tree: Any) -> None:
    """Make an `aside` a `div` whose class is that of a note to the text: Resiliparse takes each for a sidebar."""
    if tree.document.query_selector("aside[class]") is None:
        return
    for found in [each for each in islice(tree.body, _MOST_NODES) if each.tag == "aside"]:
        if _NOTE.search(found.getattr("class") or "") and _is_text(found):
            _replace(found, tree.create_element("div"))


def _outer_nodes(parent: Any, levels: int) -> Iterator[Any]:
    """Yield the nodes of some levels below a node. Collections of Resiliparse take quadratic time."""
    child = parent.first_child
    while child is not None:
        yield child
        if levels > 1:
            yield from _outer_nodes(child, levels - 1)
        child = child.next


def _is_text(element: Any) -> bool:
    """Return whether an element has few links, and sentences or long items."""
    size = _size(element)
    linked = sum(_size(each) for each in element if each.tag == "a")
    items = sum(each.tag == "li" for each in element) or 1
    return linked <= _LINKED * size and (size >= _ITEM * items or "。" in element.text)


def _size(element: Any) -> int:
    return len("".join(element.text.split()))


def _replace(old: Any, new: Any) -> None:
    for name in _READ:
        if (value := old.getattr(name)) is not None:
            new.setattr(name, value)
    while (child := old.first_child) is not None:
        new.append_child(child)
    old.parent.replace_child(new, old)
