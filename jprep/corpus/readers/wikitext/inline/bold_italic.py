"""Remove the apostrophes of bold and italic text, line by line as MediaWiki does."""

from __future__ import annotations

import re

_RUN = re.compile(r"''('*)")
# Number of apostrophes beyond two → (literal text, whether the run toggles bold, whether it toggles italic).
_KINDS = {0: ("", False, True), 1: ("", True, False), 2: ("'", True, False), 3: ("", True, True)}


def remove_bold_italic(text: str) -> str:
    """Delete the apostrophes that mark bold and italic, and keep those that are text.

    A run of two marks italic, of three bold, of five both. The surplus in a run of four or more than five is text. If a
    line opens both and closes neither, one `'''` is an apostrophe and an italic mark (`''[[A]]'''s`).

    Args:
        text: any number of lines, which are resolved independently.
    """
    pieces = _RUN.split(text)
    bold: list[int] = []
    bolds = italics = False
    for at in range(1, len(pieces), 2):
        extra = len(pieces[at])
        literal, is_bold, is_italic = _KINDS.get(extra) or ("'" * (extra - 3), True, True)
        pieces[at] = literal
        bolds ^= is_bold
        italics ^= is_italic
        if is_bold and not is_italic:
            bold.append(at)
        if "\n" in pieces[at + 1]:
            if bolds and italics:
                _unbold(pieces, bold)
            bold.clear()
            bolds = italics = False
    if bolds and italics:
        _unbold(pieces, bold)
    return "".join(pieces)


def _unbold(pieces: list[str], bold: list[int]) -> None:
    """Restore the apostrophe of one of the runs of three in a line.

    The choice is MediaWiki's: the first run after a word of one letter (`l'''amour`), else the first after a longer
    word, else the first after a space.
    """
    ranks: dict[int, int] = {}
    for at in bold:
        before = pieces[at - 1][-2:] + pieces[at]
        rank = 2 if before[-1:] == " " else 0 if before[-2:-1] == " " else 1
        ranks.setdefault(rank, at)
    if ranks:
        pieces[ranks[min(ranks)]] += "'"
