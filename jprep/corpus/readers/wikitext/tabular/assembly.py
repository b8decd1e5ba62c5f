"""Make paragraphs of the lines of rows, when all mark-up in their cells is resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.placeholders import CELL_START, KEY_START, ROW, ROW_START

_NO_VALUE = frozenset("-‐‑–—―−－…・") | {"--", "---", "――", "……", "n/a", "N/A", "?", "？"}
"""Texts of cells without a value."""

_WORD = re.compile(r"\w")
_PAUSE = re.compile(r"[、，]|。(?!\Z)")
_END_OF_KEY = "：: \u3000"


def assemble_rows(text: str, restore: Callable[[str], str], tally: Tally) -> str:
    """Return a text in which each row is one line: `key：value、key：value`.

    Cells without a value are left out. If a value contains a comma or a full stop, ； separates the cells.

    Args:
        text: a text whose mark-up is resolved.
        restore: replaces the placeholders of literals.
        tally: receives the counts `rows`, `rows.empty`, `cells` and `cells.empty`.
    """
    if ROW not in text:
        return text
    return "\n".join(_assembled(text.split("\n"), restore, tally))


def _assembled(lines: list[str], restore: Callable[[str], str], tally: Tally) -> Iterator[str]:
    row: list[tuple[str, str]] | None = None
    key = ""
    for line in (*lines, ""):
        if line.startswith(KEY_START):
            key = _shown(line, restore).strip(_END_OF_KEY)
            key = key if _WORD.search(key) else ""
        elif line.startswith(CELL_START):
            row = row or []
            row.append((key, _shown(line, restore)))
            key = ""
        else:
            if row is not None:
                yield _row(row, tally)
                row = None
            if line.startswith(ROW_START):
                row = []
            else:
                yield line


def _shown(line: str, restore: Callable[[str], str]) -> str:
    return " ".join(restore(line[len(ROW_START) :]).split())


def _row(cells: list[tuple[str, str]], tally: Tally) -> str:
    kept = [(key, value) for key, value in cells if value not in _NO_VALUE and (_WORD.search(value) or (key and value))]
    tally["cells"] += len(kept)
    tally["cells.empty"] += len(cells) - len(kept)
    tally["rows" if kept else "rows.empty"] += 1
    shown = [f"{key}：{value}" if key and key != value else value for key, value in kept]
    shown[:-1] = [each.rstrip("。") for each in shown[:-1]]
    return ("；" if any(_PAUSE.search(value) for _, value in kept) else "、").join(shown)
