"""Tables, for those who want them: one row a paragraph."""

from __future__ import annotations

import re

from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic
from jprep.corpus.readers.wikitext.placeholders import BREAK, DROPPED, EMPTY, LINKED, PIPE

_SPACES = " \t\u3000"
_LIST_SIGNS = "*#:;" + _SPACES
_TAGGED_CELL = re.compile(r"\n[ \t]*\|(?=(?:<[a-z/][^<>\n]*+>)+[-+}])", re.I)
_LINKED_LINE = re.compile(r"\n[ \t]*[|!][^\n\[]*+(?:\[(?!\[)[^\n\[]*+)*\[\[[^\n]*+")
_LINKED_CELL = re.compile(r"(?:\n[ \t]*(?:\|\+|[|!](?![-}]))|\|\||!!)(?=[^|\n\[]*+(?:\[(?!\[)[^|\n\[]*+)*\[\[)")


def mark_cells(text: str) -> str:
    """Mark cells whose beginning will look different once links and tags are resolved.

    A `|` behind a link does not end attributes; a tag parts the sign of a cell from a `-` or `+` that is its text.
    """
    if "{|" not in text:
        return text
    text = _TAGGED_CELL.sub(rf"\g<0>{EMPTY}", text)
    return _LINKED_LINE.sub(lambda line: _LINKED_CELL.sub(rf"\g<0>{LINKED}", line[0]), text)


def table_rows(content: str) -> str:
    """Return the rows of a table, one a line, cells without attributes, with tabs between them.

    Args:
        content: what stands between `{|` and `|}`, its templates and links resolved.
    """
    table = _RowCollector()
    for line in content.replace(PIPE, "|").replace(BREAK, " ").replace(DROPPED, " ").split("\n")[1:]:
        table.add(line.strip(_SPACES))
    table.end_row()
    return "\n".join(("", *table.shown, ""))


class _RowCollector:
    """Gathers the rows of a table, line by line."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._cells: list[list[str]] = []
        self._in_caption = False

    def add(self, line: str) -> None:
        """Take one line of the source: a row's or caption's beginning, cells, or more of the last cell."""
        sign = line[:1]
        if line.startswith(("|-", "|+")):
            self.end_row()
            self._in_caption = line[1] == "+"
            if self._in_caption:
                self._add_cells(line[2:])
        elif sign in ("|", "!"):
            if self._in_caption:
                self.end_row()
            self._add_cells(line[1:].replace("!!", "||") if sign == "!" else line[1:])
        elif self._cells:
            self._cells[-1].append(line.lstrip(_LIST_SIGNS))
        else:
            self._cells.append([line.lstrip(_LIST_SIGNS)])

    def _add_cells(self, line: str) -> None:
        self._cells += ([_without_attributes(cell)] for cell in line.split("||"))

    def end_row(self) -> None:
        """Show what was gathered since the last row."""
        row = "\t".join(text for text in map(_text, self._cells) if text)
        if row:
            self.shown.append(EMPTY + row)  # neither a list item nor the rest of the row above
        self._cells, self._in_caption = [], False


def _without_attributes(cell: str) -> str:
    attributes, pipe, text = cell.partition("|")
    shown = text if pipe and LINKED not in attributes else cell
    return shown.replace(LINKED, "")


def _text(lines: list[str]) -> str:
    shown = "\n".join(lines)
    return " ".join((remove_bold_italic(shown) if "''" in shown else shown).split())
