"""Convert tables to rows with tabs between the cells, if the option `tables` is true."""

from __future__ import annotations

from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic
from jprep.corpus.readers.wikitext.placeholders import BREAK, DROPPED, EMPTY, LOST, PIPE
from jprep.corpus.readers.wikitext.tabular.cells import Cell, parse_rows


def tabbed_rows(content: str) -> str:
    """Return the rows of a table, one per line, with tabs between cells and without attributes.

    Args:
        content: the text between `{|` and `|}`, with templates and links resolved.
    """
    lines = content.replace(PIPE, "|").replace(BREAK, " ").replace(DROPPED, " ").replace(LOST, " ").split("\n")[1:]
    rows = ("\t".join(text for text in map(_text, row.cells) if text) for row in parse_rows(lines))
    # Neither a list item nor a continuation of the row above.
    return "\n".join(("", *(EMPTY + row for row in rows if row), ""))


def _text(cell: Cell) -> str:
    shown = "\n".join(cell.lines)
    return " ".join((remove_bold_italic(shown) if "''" in shown else shown).split())
