"""Convert tables to text, one row per paragraph, if the option `tables` is set."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic
from jprep.corpus.readers.wikitext.placeholders import BREAK, DROPPED, EMPTY, LINKED, LOST, PIPE

_SPACES = " \t\u3000"
_LIST_MARKUP = "*#:;" + _SPACES
_TAGGED_CELL = re.compile(r"\n[ \t]*\|(?=(?:<[a-z/][^<>\n]*+>)+[-+}])", re.I)
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


def table_rows(content: str) -> str:
    """Return the rows of a table, one per line, with tabs between cells and without attributes.

    Args:
        content: the text between `{|` and `|}`, with templates and links resolved.
    """
    table = _RowCollector()
    for line in content.replace(PIPE, "|").replace(BREAK, " ").replace(DROPPED, " ").replace(LOST, " ").split("\n")[1:]:
        table.add(line.strip(_SPACES))
    table.end_row()
    return "\n".join(("", *table.shown, ""))


class _RowCollector:
    """Collects the rows of a table, line by line.

    Attributes:
        shown: the finished rows as text.
    """

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._cells: list[list[str]] = []
        self._in_caption = False

    def add(self, line: str) -> None:
        """Add a line of wikitext: the beginning of a row or caption, cells, or a continuation of the last cell."""
        markup = line[:1]
        if line.startswith(("|-", "|+")):
            self.end_row()
            self._in_caption = line[1] == "+"
            if self._in_caption:
                self._add_cells(line[2:])
        elif markup in ("|", "!"):
            if self._in_caption:
                self.end_row()
            self._add_cells(line[1:].replace("!!", "||") if markup == "!" else line[1:])
        elif self._cells:
            self._cells[-1].append(line.lstrip(_LIST_MARKUP))
        else:
            self._cells.append([line.lstrip(_LIST_MARKUP)])

    def _add_cells(self, line: str) -> None:
        self._cells += ([_without_attributes(cell)] for cell in line.split("||"))

    def end_row(self) -> None:
        """Finish the current row."""
        row = "\t".join(text for text in map(_text, self._cells) if text)
        if row:
            self.shown.append(EMPTY + row)  # neither a list item nor a continuation of the row above
        self._cells, self._in_caption = [], False


def _without_attributes(cell: str) -> str:
    attributes, pipe, text = cell.partition("|")
    shown = text if pipe and LINKED not in attributes else cell
    return shown.replace(LINKED, "")


def _text(lines: list[str]) -> str:
    shown = "\n".join(lines)
    return " ".join((remove_bold_italic(shown) if "''" in shown else shown).split())
