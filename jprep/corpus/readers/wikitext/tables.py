"""Tables, for those who want them: one row a paragraph."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.marks import BREAK, DROP

_CELL = re.compile(r"\|\||!!|\n[|!]")
_ATTRIBUTES = re.compile(r"[^|\[\]]*\|(?!\|)")


def rows(content: str) -> str:
    """The rows of a table, from what stands between its `{|` and `|}`: cells without attributes, tabs between them."""
    lines = []
    for row in re.split(r"\n[ \t]*\|-[^\n]*", content.partition("\n")[2].join(("\n", ""))):
        caption, cells = _parts(row)
        lines += [caption, "\t".join(cell for cell in cells if cell)]
    return "\n" + "\n".join(line for line in lines if line) + "\n"


def _parts(row: str) -> tuple[str, list[str]]:
    """A row's caption (`|+`), which stands before the first row, and its cells."""
    caption = ""
    cells = []
    for cell in _CELL.split(row):
        if cell[:1] == "+":
            caption = _text(cell[1:])
        else:
            cells.append(_text(cell))
    return caption, cells


def _text(cell: str) -> str:
    if attributes := _ATTRIBUTES.match(cell):
        cell = cell[attributes.end() :]
    return " ".join(cell.replace(BREAK, " ").replace(DROP, " ").split())
