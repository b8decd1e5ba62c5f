"""Place the cells of a table in its columns: `rowspan` and `colspan` are resolved."""

from __future__ import annotations

import re
from typing import NamedTuple

from jprep.corpus.readers.wikitext.html.entities import decode_entities
from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic
from jprep.corpus.readers.wikitext.placeholders import BREAK, EMPTY, GONE
from jprep.corpus.readers.wikitext.tabular.cells import Cell, Row

MAX_COLUMNS = 100
"""Cells beyond are dropped. The limit bounds what a cell can span."""

_SPAN = re.compile(r"(?<![\w-])(row|col)span\s*=\s*[\"']?\s*(\d{1,6})", re.I | re.A)
_MAX_ATTRIBUTES = 512  # characters that are searched
_BOLD = re.compile(rf"[\s{GONE}]*'''(?:[^']|'(?!''))*+'''[\s{GONE}]*")
_LINE_END = re.compile(rf"[\n{BREAK}]+")
_NO_TEXT = re.compile(rf"[\s{GONE}]|{EMPTY}")
_JOINED = frozenset("、。，．,.・：:；;！？!?（(「『〜～→/／-")
_CONTINUES = frozenset("、。，．,.・：:；;）)（(」』〜～→/／-")
"""Signs at the end and at the beginning of a line that need no 、 between the lines."""


class GridCell(NamedTuple):
    """A cell in its place.

    Attributes:
        text: its text in one line.
        empty: whether the text shows nothing.
        header: whether it is a header, or all bold.
        row: number of its first row.
        column: its first column.
        width: number of columns.
        height: number of rows that it reaches down, itself included.
    """

    text: str
    empty: bool
    header: bool
    row: int
    column: int
    width: int
    height: int


class GridRow(NamedTuple):
    """A row with the cells that stand in it.

    Attributes:
        cells: cells in the order of columns, also those that reach down from a row above.
        own: those that begin here.
        nested: lines of the rows of tables in it.
        caption: whether it is the caption.
    """

    cells: list[GridCell]
    own: list[GridCell]
    nested: list[str]
    caption: bool = False


class Grid:
    """Places rows, one after the other.

    Attributes:
        beyond: number of cells in columns beyond the limit.
    """

    def __init__(self) -> None:
        self.beyond = 0
        self._row = 0
        self._reaching: dict[int, tuple[GridCell, int]] = {}

    def place(self, row: Row) -> GridRow:
        """Return a row with its cells in their columns."""
        self._row += 1
        if row.caption or not row.cells:
            own = [_placed(cell, self._row, 0) for cell in row.cells[:1]]
            return GridRow(own, own, row.nested, row.caption)
        cells, own, column = list[GridCell](), list[GridCell](), 0
        reaching, self._reaching = self._reaching, {}
        for cell in row.cells:
            while column in reaching:
                column = self._reach(*reaching.pop(column), cells)
            if column >= MAX_COLUMNS:
                self.beyond += 1
                continue
            placed = _placed(cell, self._row, column)
            own.append(placed)
            column = self._reach(placed, placed.height, cells)
        for _, (above, height) in sorted(reaching.items()):
            self._reach(above, height, cells)
        return GridRow(cells, own, row.nested)

    def _reach(self, cell: GridCell, height: int, cells: list[GridCell]) -> int:
        """Add a cell to the row, and to the next one if it reaches further; return the column after it."""
        cells.append(cell)
        if height > 1:
            self._reaching[cell.column] = cell, height - 1
        return cell.column + cell.width


def _placed(cell: Cell, row: int, column: int) -> GridCell:
    spans = {name.lower(): int(count) for name, count in _SPAN.findall(cell.attributes[:_MAX_ATTRIBUTES])}
    width = max(1, min(spans.get("col", 1), MAX_COLUMNS - column))
    source = "\n".join(cell.lines)
    header = cell.header or _BOLD.fullmatch(source) is not None
    text = cell_text(source, header)
    return GridCell(text, _is_empty(text), header, row, column, width, max(1, spans.get("row", 1)))


def cell_text(source: str, header: bool = False) -> str:
    """Return the text of a cell in one line: lines and list items are joined by 、, those of headers by nothing."""
    shown = remove_bold_italic(source) if "''" in source else source
    before, parts = "", list[str]()
    for part in map(_stripped, _LINE_END.split(shown)):
        if part.strip(GONE):
            parts += _between(before, part, header), part
            before = part
        else:
            parts.append(part)
    return "".join(parts)


def _between(before: str, after: str, header: bool) -> str:
    if not before or before[-1] in _JOINED or after[0] in _CONTINUES:
        return ""
    if header:
        return " " if before[-1:].isascii() and after[0].isascii() else ""
    return "、"


def _stripped(line: str) -> str:
    return " ".join(line.replace("&nbsp;", " ").split())


def _is_empty(text: str) -> bool:
    """Return whether a text shows nothing."""
    return not _NO_TEXT.sub("", decode_entities(text))
