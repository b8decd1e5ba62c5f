"""Convert tables to rows that are read without the table: the headers stand before the values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.placeholders import (
    CELL_START,
    DROPPED,
    EQUALS,
    KEY_START,
    PIPE,
    ROW_START,
)
from jprep.corpus.readers.wikitext.tabular.cells import parse_rows
from jprep.corpus.readers.wikitext.tabular.grid import Grid, GridCell, GridRow

MAX_KEY = 100
"""Characters of a header. Longer texts in header cells are not repeated."""

_MAX_LEVELS = 4
_MARKS = 8  # characters that mark a cell
_GROWTH, _FREE = 10, 10_000
_LAYOUT = re.compile(
    r"class\s*=\s*(?:\"[^\"<>]*?|'[^'<>]*?|)(?<![\w-])(?:(?:vertical-)?navbox|navbar|sidebar|[acfiot]?mbox|metadata|"
    r"noprint|toc(?:right|box|limit|colours)?|hatnote|stub|notice|gallery)(?![a-z0-9])|"
    r"style\s*=\s*[\"']?[^\"'<>]*?(?:display\s*:\s*none|visibility\s*:\s*hidden)|"
    r"role\s*=\s*[\"']?(?:navigation|note|presentation)\b",
    re.I,
)
_MAX_ATTRIBUTES = 512  # characters that are searched: a pattern may begin at each of them
_NUMBER = re.compile(r"[\d.,，．%％+\-−±/ ]+")


def key_and_value(key: str, value: str) -> Iterator[str]:
    """Yield the lines of a cell; see `ROW_START`."""
    if key:
        yield KEY_START + key
    yield CELL_START + value


class TableRows:
    """Converts tables to lines, from which `assemble_rows` makes rows in the end.

    A header above a column is repeated before each value, and so is a header in a row before the values after it.
    Captions, and cells that fill a row, become rows of their own. Layout tables are dropped: those of navigation and
    notes, and those with one cell or with one row without headers.

    Args:
        tally: receives the counts `tables.layout`, `tables.cut` and `cells.beyond`.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def show(self, content: str) -> str:
        """Return the lines of a table.

        Args:
            content: the text between `{|` and `|}`, with templates and links resolved.
        """
        attributes, *lines = content.replace(PIPE, "|").replace(EQUALS, "=").split("\n")
        if _LAYOUT.search(attributes, 0, _MAX_ATTRIBUTES):
            self._tally["tables.layout"] += 1
            return f"\n{DROPPED}"
        grid = Grid()
        rows = [grid.place(row) for row in parse_rows(lines)]
        self._tally["cells.beyond"] += grid.beyond
        if _is_layout(rows):
            self._tally["tables.layout"] += 1
            return "\n".join((f"\n{DROPPED}", *(line for row in rows for line in row.nested), ""))
        source = len(content) - sum(len(line) for row in rows for line in row.nested)
        return "\n".join(("", *self._limited(_shown(rows), _FREE + _GROWTH * source), ""))

    def _limited(self, rows: Iterable[tuple[list[str], list[str]]], limit: int) -> Iterator[str]:
        """Yield the lines of rows until they are much longer than the table, which spans and headers can make them.

        Tables within are not counted: they have limits of their own, which must not multiply.
        """
        for lines, nested in rows:
            limit -= sum(map(len, lines)) + _MARKS * len(lines)
            if limit < 0:
                self._tally["tables.cut"] += 1
                return
            yield from lines
            yield from nested


def _is_layout(rows: list[GridRow]) -> bool:
    """Return whether a table has at most one cell with text, or one row with text, without a header."""
    filled = [row for row in rows if not row.caption and not all(cell.empty for cell in row.own)]
    if not filled or sum(not cell.empty for row in filled for cell in row.own) < 2:
        return True
    return len(filled) == 1 and not any(cell.header for cell in filled[0].own)


def _shown(rows: list[GridRow]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the lines of each row, and those of the rows of tables in it."""
    keys: dict[int, str] = {}
    rows = [row for row in rows if row.nested or not all(cell.empty for cell in row.own)]
    two = not any(cell.header for row in rows for cell in row.own) and _has_two_columns(rows)
    at = above = 0
    while at < len(rows):
        row = rows[at]
        levels = 1
        if row.caption or _is_title(row, rows, bool(keys)):
            yield [ROW_START, *(CELL_START + cell.text for cell in row.own if not cell.empty)], row.nested
        elif headers := rows[at : at + _header_rows(rows, at, bool(keys))]:
            keys, levels = _keys(headers), len(headers)
            above = max((cell.row for header in headers for cell in header.own), default=above)
            yield [], [line for header in headers for line in header.nested]
        else:
            cells = [cell for cell in row.cells if cell.row > above]  # no picture beside the rows
            yield [ROW_START, *(_pair(cells) if two else _cells(cells, keys))], row.nested
        at += levels


def _has_two_columns(rows: list[GridRow]) -> bool:
    return all(len(row.cells) <= 2 and all(cell.column < 2 for cell in row.cells) for row in rows if not row.caption)


def _is_title(row: GridRow, rows: list[GridRow], again: bool) -> bool:
    """Return whether a row has one cell, which spans columns; below headers, a header beside empty cells is enough."""
    if len(row.cells) == 1:
        return bool(row.own) and row.own[0].width > 1 and len(rows) > 1
    filled = [cell for cell in row.cells if not cell.empty]
    return again and len(filled) == 1 and filled[0].header and filled[0].width > 1 and filled[0] in row.own


def _header_rows(rows: list[GridRow], at: int, again: bool) -> int:
    """Return how many rows of headers begin here: none if no row of values follows.

    Args:
        rows: all rows.
        at: index of the first row.
        again: whether the table had headers before. Numbers are then taken for values, as in a row of sums.
    """
    end, last = at, min(len(rows), at + _MAX_LEVELS + 1)
    while end < last and _is_header(rows[end]) and (end == at or _continues(rows[end], rows[end - 1], rows)):
        end += 1
    if end == last:  # a table of headers only: those of the first row
        return int(not again)
    if rows[end].caption:
        return 0
    if again and any(_NUMBER.fullmatch(cell.text) for row in rows[at:end] for cell in row.own):
        return 0
    return end - at


def _continues(row: GridRow, above: GridRow, rows: list[GridRow]) -> bool:
    """Return whether a row below headers is one of headers, too: no title, and numbers only below wide headers.

    A wide header below a wide one, beside an empty cell, is no title here.
    """
    wide = {column for cell in above.cells if cell.width > 1 for column in _columns(cell)}
    if not wide.issuperset(cell.column for cell in row.own if _NUMBER.fullmatch(cell.text)):
        return False
    below = (column for cell in row.own if not cell.empty for column in _columns(cell))
    return (row.cells[0].empty and wide.issuperset(below)) or not _is_title(row, rows, again=True)


def _columns(cell: GridCell) -> range:
    return range(cell.column, cell.column + cell.width)


def _is_header(row: GridRow) -> bool:
    filled = [cell for cell in row.cells if not cell.empty]
    return len(row.cells) > 1 and not row.caption and bool(filled) and all(cell.header for cell in filled)


def _keys(rows: list[GridRow]) -> dict[int, str]:
    """Return the header of each column; of several header cells above each other, all."""
    found: dict[int, list[str]] = {}
    for row in rows:
        for cell in row.cells:
            for column in _columns(cell):
                texts = found.setdefault(column, [])
                if cell.text not in texts and not cell.empty and len(cell.text) <= MAX_KEY:
                    texts.append(cell.text)
    return {column: " ".join(texts) for column, texts in found.items()}


def _cells(cells: list[GridCell], keys: dict[int, str]) -> Iterator[str]:
    """Yield the lines of the cells of a row, each with the header of its column or, without one, of its row."""
    if any(keys.values()):
        for cell in cells:
            yield from key_and_value(_key(cell, keys), cell.text)
        return
    key = ""
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        if cell.header and after and not after.header and len(cell.text) <= MAX_KEY:
            key = cell.text
        else:
            yield from key_and_value(key, cell.text)
            key = ""


def _key(cell: GridCell, keys: dict[int, str]) -> str:
    """Return the headers above a cell."""
    names = dict.fromkeys(keys.get(column, "") for column in _columns(cell))
    return "・".join(filter(None, names)) if len(names) < 4 else ""


def _pair(cells: list[GridCell]) -> Iterator[str]:
    """Yield the lines of a row of two cells, the first of which names the second."""
    if len(cells) == 2 and len(cells[0].text) <= MAX_KEY and not any(cell.empty for cell in cells):
        return key_and_value(cells[0].text, cells[1].text)
    return (line for cell in cells for line in key_and_value("", cell.text))
