"""Parse the lines between `{|` and `|}` to rows of cells."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.placeholders import EMPTY, GONE, LINKED, ROW_LINES

_SPACES = " \t\u3000"
_LIST_MARKUP = "*#:;" + _SPACES
_TAGGED_CELL = re.compile(r"\n[ \t]*\|(?=(?:<[a-z/][^<>\n]*+>)+[-+}])", re.I)
_REST = re.compile(r"!!(?!!)")
"""Begins the rest of a line of headers, in which a list began lines of its own."""

_LINKED_LINE = re.compile(r"\n[ \t]*[|!][^\n\[]*+(?:\[(?!\[)[^\n\[]*+)*\[\[[^\n]*+")
_LINKED_CELL = re.compile(r"(?:\n[ \t]*(?:\|\+|[|!](?![-}]))|\|\||!!)(?=[^|\n\[]*+(?:\[(?!\[)[^|\n\[]*+)*\[\[)")


def mark_cells(text: str) -> str:
    """Mark cells whose beginning changes when links and tags are resolved.

    A `|` after a link does not end the attributes of a cell. A tag separates the mark-up of a cell from a `-` or `+`
    that belongs to its text.
    """
    if "{|" not in text:
        return text
    text = _TAGGED_CELL.sub(rf"\g<0>{EMPTY}", text)
    return _LINKED_LINE.sub(lambda line: _LINKED_CELL.sub(rf"\g<0>{LINKED}", line[0]), text)


class Cell:
    """A cell of a table.

    Attributes:
        attributes: its attributes, as in the source.
        header: whether `!` begins it.
        lines: its text, by lines of the source.
    """

    __slots__ = ("attributes", "header", "lines")

    def __init__(self, source: str, header: bool = False) -> None:
        attributes, pipe, text = source.partition("|")
        split = pipe and LINKED not in attributes
        self.attributes, shown = (attributes, text) if split else ("", source)
        self.header, self.lines = header, [shown.replace(LINKED, "")]


class Row:
    """A row of a table.

    Attributes:
        caption: whether it is the caption.
        cells: its cells.
        nested: lines of the rows of tables in it.
    """

    __slots__ = ("caption", "cells", "nested")

    def __init__(self, caption: bool = False) -> None:
        self.caption = caption
        self.cells: list[Cell] = []
        self.nested: list[str] = []


def parse_rows(lines: list[str]) -> list[Row]:
    """Return the rows of a table that have a cell, by its lines without that of `{|`.

    The first row is the text outside the cells, which MediaWiki shows above the table, as it does captions.
    """
    rows = [Row(caption=True), Row()]
    for line in lines:
        _add(rows, line.strip(_SPACES))
    return [row for row in rows if row.cells or row.nested]


def _add(rows: list[Row], line: str) -> None:
    """Add a line: the beginning of a row or caption, cells, a row of a table within, or more text of the last cell."""
    if line.startswith(ROW_LINES):
        rows[-1].nested.append(line)
        return
    bare = line.lstrip(_SPACES + GONE)
    if bare.startswith(("|-", "|+")):
        rows.append(Row(bare[1] == "+"))
        if bare[1] == "+":
            _add_cells(rows[-1], bare[2:], header=False)
    elif bare[:1] in ("|", "!"):
        if rows[-1].caption:
            rows.append(Row())
        header = bare[0] == "!"
        text = bare[2 if _REST.match(bare) else 1 :]
        _add_cells(rows[-1], text.replace("!!", "||") if header else text, header)
    elif rows[-1].cells:
        rows[-1].cells[-1].lines.append(line.lstrip(_LIST_MARKUP))
    elif bare:
        rows[0].cells = rows[0].cells or [_text_cell()]
        rows[0].cells[0].lines.append(line.lstrip(_LIST_MARKUP))


def _add_cells(row: Row, line: str, header: bool) -> None:
    row.cells += (Cell(cell, header) for cell in line.split("||"))


def _text_cell() -> Cell:
    """Return a cell of the text outside the cells, in which a `|` means nothing."""
    cell = Cell("")
    cell.lines = []
    return cell
