"""Fragments of HTML that Jupyter displays.

A fragment holds its styles: notebooks, their renderings on other sites and their exports keep no style sheet. Colours
are half transparent or those of the text around, so that they suit light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jprep.html.text import html, shortened

TITLE_LIMIT = 80
"""Characters of a title, a name or a path that are shown."""
TEXT_LIMIT = 160
"""Characters of a text that are shown."""

_CELL = "padding:2px 10px 2px 0;vertical-align:top;text-align:{}"
_MUTED = "opacity:.7;font-size:90%"
_EXCERPT = "display:inline-block;min-width:15em;overflow-wrap:anywhere"


class Fragment(NamedTuple):
    """HTML that was made from escaped text.

    Attributes:
        markup: the HTML.
    """

    markup: str


Cell = str | int | Fragment
"""A cell of a table: text, which is escaped; a number, which gets thousands separators; or a fragment."""


def display(*fragments: Fragment) -> str:
    """Return what `_repr_html_` returns: the fragments, one below the other."""
    return f'<div style="line-height:1.5">{"".join(fragment.markup for fragment in fragments)}</div>'


def heading(kind: str, name: str, where: object) -> Fragment:
    """Return a heading: what is shown, its name, and where it is."""
    place = html(shortened(str(where), TITLE_LIMIT))
    about = f'{html(kind)} <b>{html(shortened(name, TITLE_LIMIT))}</b> <code style="font-size:90%">{place}</code>'
    return Fragment(f'<div style="margin:2px 0 6px">{about}</div>')


def table(rows: Iterable[Sequence[Cell]], head: Sequence[str] = ()) -> Fragment:
    """Return a table."""
    top = "".join(f'<th scope="col" style="{_CELL.format("left")}">{html(each)}</th>' for each in head)
    lines = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows]
    body = (f"<thead><tr>{top}</tr></thead>" if top else "") + f"<tbody>{''.join(lines)}</tbody>"
    return Fragment(f'<table style="border-collapse:collapse;margin:4px 0">{body}</table>')


def figures(values: Mapping[str, Cell]) -> Fragment:
    """Return a table of two columns: names and values. Numbers are aligned if there are only numbers."""
    aligned = all(isinstance(value, int) for value in values.values())
    rows = [(name, value if aligned or not isinstance(value, int) else f"{value:,}") for name, value in values.items()]
    return table([(Fragment(f'<span style="opacity:.7">{html(name)}</span>'), value) for name, value in rows])


def section(title: str, *fragments: Fragment, opened: bool = True) -> Fragment:
    """Return fragments below a title that folds them."""
    summary = f'<summary style="cursor:pointer"><b>{html(title)}</b></summary>'
    inner = "".join(fragment.markup for fragment in fragments)
    return Fragment(f'<details style="margin:4px 0"{" open" if opened else ""}>{summary}{inner}</details>')


def columns(*fragments: Fragment) -> Fragment:
    """Return fragments side by side, where there is room."""
    parts = "".join(f"<div>{fragment.markup}</div>" for fragment in fragments)
    return Fragment(f'<div style="display:flex;flex-wrap:wrap;gap:0 36px">{parts}</div>')


def note(text: str) -> Fragment:
    """Return a line in small type."""
    return Fragment(f'<div style="{_MUTED};overflow-wrap:anywhere">{html(text)}</div>')


def excerpt(text: str) -> Fragment:
    """Return the beginning of a text."""
    return Fragment(f'<span style="{_EXCERPT}">{html(shortened(text, TEXT_LIMIT))}</span>')


def bar(share: float) -> Fragment:
    """Return a bar of a length between 0 and 1."""
    width = max(1, round(120 * min(1.0, share)))
    style = f"display:inline-block;width:{width}px;height:10px;background:currentColor;opacity:.35"
    return Fragment(f'<span aria-hidden="true" style="{style}"></span>')


def _cell(value: Cell) -> str:
    if isinstance(value, Fragment):
        return f'<td style="{_CELL.format("left")}">{value.markup}</td>'
    if isinstance(value, int):
        return f'<td style="{_CELL.format("right")}">{value:,}</td>'
    return f'<td style="{_CELL.format("left")}">{html(shortened(value, TEXT_LIMIT))}</td>'
