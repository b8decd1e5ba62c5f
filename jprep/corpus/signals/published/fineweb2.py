"""Signals of FineWeb2 about lines, by the definitions of datatrove's filters. Cheap: they need no words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.published.swallow_repetition import duplicate_shares
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.signals.batch import TextBatch


def _characters(ranges: str) -> frozenset[str]:
    """Return the characters of ranges of code points in hexadecimal, e.g. "21 3f-40"."""
    pairs = [[int(end, 16) for end in each.split("-")] for each in ranges.split()]
    return frozenset(chr(code) for pair in pairs for code in range(pair[0], pair[-1] + 1))


SENTENCE_TERMINALS = _characters(
    "21 2e 3f 589 61d-61f 6d4 700-702 7f9 837 839 83d-83e 964-965 104a-104b 1362 1367-1368 166e 1735-1736 "
    "17d4-17d6 17d9-17da 1803 1809 1944-1945 1aa8-1aab 1b5a-1b5b 1b5e-1b5f 1b7d-1b7e 1c3b-1c3c 1c7e-1c7f "
    "203c-203d 2047-2049 2e2e 2e3c 2e53-2e54 3002 a4ff a60e-a60f a6f3 a6f7 a876-a877 a8ce-a8cf a92f a9c8-a9c9 "
    "aa5d-aa5f aaf0-aaf1 abeb fe52 fe56-fe57 ff01 ff0e ff1f ff61 10a56-10a57 10f55-10f59 10f86-10f89 "
    "11047-11048 110be-110c1 11141-11143 111c5-111c6 111cd 111de-111df 11238-11239 1123b-1123c 112a9 "
    "1144b-1144c 115c2-115c3 115c9-115d7 11641-11642 1173c-1173e 11944 11946 11a42-11a43 11a9b-11a9c "
    "11c41-11c42 11ef7-11ef8 11f43-11f44 16a6e-16a6f 16af5 16b37-16b38 16b44 16e98 1bc9f 1da88 "
)
"""Characters of Unicode 15's property Sentence_Terminal, as far as datatrove takes them, and three marks of Khmer."""
PUNCTUATION = SENTENCE_TERMINALS | _characters(
    "0-8 b-1f 22-2d 2f 3a-3e 40 5b-60 7b-9f ab b4 bb 2013-2014 2019 201c-201e 2026 2236 2501 25ba 3001 "
    "3008-300d 3010-3011 ff05 ff08-ff09 ff0c ff11 ff1a-ff1b ff5e "
)
"""Characters of which a word of symbols consists."""
_TERMINALS = tuple(SENTENCE_TERMINALS)


class FineWeb2Lines(Signal):
    """Lines as datatrove's filters measure them. A share of nothing is 0.

    Columns: `fineweb2_duplicate_line_share` of the lines between line feeds; of the lines that are not blank:
    `fineweb2_terminated_line_share`, which end in punctuation, and `fineweb2_duplicate_character_share`, characters of
    duplicate lines; `fineweb2_bullet_line_share`, which begin with • or -; `fineweb2_ellipsis_line_share`.
    """

    name = "fineweb2_lines"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        names = ("duplicate_line", "terminated_line", "duplicate_character", "bullet_line", "ellipsis_line")
        return tuple(f"fineweb2_{name}_share" for name in names)

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        values = np.array([_measure(text) for text in batch.texts], np.float64).reshape(-1, len(self.columns)).T
        return dict(zip(self.columns, values, strict=True))


def _measure(text: str) -> tuple[float, ...]:
    filled = [line for line in text.split("\n") if line and not line.isspace()]
    # datatrove divides by all characters of the text but line feeds, those of blank lines included.
    repeated = sum(map(len, filled)) - sum(map(len, set(filled)))
    shown = text.splitlines()
    return (
        duplicate_shares(re.split("\n+", text))[0],
        sum(line.endswith(_TERMINALS) for line in filled) / max(len(filled), 1),
        repeated / max(len(text) - text.count("\n"), 1),
        sum(line.lstrip().startswith(("•", "-")) for line in shown) / max(len(shown), 1),
        sum(line.rstrip().endswith(("...", "…")) for line in shown) / max(len(shown), 1),
    )
