"""The signal `prose`: what tells prose from lists, code, repetition and broken text."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.character_kinds import KINDS, kind_of_code_points, table_of
from jprep.corpus.signals.prose.code import code_mask, is_japanese
from jprep.corpus.signals.prose.pair_classes import AFFINITY_UNIT, CLASSES, class_of_code_points, pair_tables
from jprep.corpus.signals.prose.repetition import repeated_runs
from jprep.corpus.signals.prose.unusual import is_unusual
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KANA = np.array([kind in ("hiragana", "katakana") for kind in KINDS])
_SYMBOL = np.array([kind == "symbol" for kind in KINDS])
_SEPARATORS = " \u3000、/|｜・,，\n"
_NEUTRAL_CHARACTERS, _NEUTRAL_GRAMMAR, _NEUTRAL_PAIRS = 40, 6, 20
_NEUTRAL_VISIBLE = 20
_BEST_LINE = 25


class ProseSignals(Signal):
    """What tells prose from lists, code, repetition and broken text. All fractions are of characters.

    Columns:
        code_share: fraction of visible characters in code, see `jprep.corpus.signals.prose.code`. Code is set aside for
            all columns below but `separator_share`; fractions do not apply to a document that is only code.
        prose_japanese_share, prose_kana_share, prose_symbol_share: fractions of kana and kanji, kana, and symbols.
        unusual_share: fraction of characters that are rare in Japanese prose and frequent in mojibake, with 20
            usual characters added.
        decoration_share: fraction of exclamation marks and of symbols outside ASCII.
        repeated_share: fraction of runs of 5 characters that occurred before within 2,000 characters.
        grammar_share: particles after words, frequent endings and function words, and ends of sentences, per Japanese
            character; 40 characters of 0.15 are added, so that short texts are not judged by chance.
        best_grammar_share: the same of the document, or of its best line of 25 Japanese characters or more if that is
            greater: an article that is mostly lists has a line of prose, a menu has none.
        kana_affinity: mean of how much more often than by chance two adjacent hiragana follow each other in
            literature, in bits, with 20 pairs of 0 added.
        separator_share: fraction of spaces, commas, slashes, middle dots and line feeds.
    """

    name = "prose"
    version = 2

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        prose = ("prose_japanese_share", "prose_kana_share", "prose_symbol_share", "unusual_share", "decoration_share")
        return (
            *("code_share", *prose, "repeated_share", "separator_share"),
            *("grammar_share", "best_grammar_share", "kana_affinity"),
        )

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        if not len(batch):
            return {column: np.zeros(0) for column in self.columns}
        prose = ~code_mask(batch)
        counted = prose & (batch.kinds > 0)
        visible, whole = _count(batch, counted), _count(batch, batch.kinds > 0)
        japanese_here = is_japanese().take(batch.kinds) & counted
        japanese = _count(batch, japanese_here)
        return {
            "code_share": 1 - share(visible, whole),
            "prose_japanese_share": share(japanese, visible),
            "prose_kana_share": share(_count(batch, _KANA.take(batch.kinds) & counted), visible),
            "prose_symbol_share": share(_count(batch, _SYMBOL.take(batch.kinds) & counted), visible),
            "unusual_share": _count(batch, is_unusual().take(batch.codes) & counted) / (visible + _NEUTRAL_VISIBLE),
            "decoration_share": share(_count(batch, _is_decoration().take(batch.codes) & counted), visible),
            "repeated_share": repeated_runs(batch, counted),
            "separator_share": share(batch.sums(table_of(_SEPARATORS).take(batch.codes)), batch.lengths),
        } | _pairs(batch, prose, japanese_here)


def _pairs(batch: TextBatch, prose: NDArray[np.bool_], japanese: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Return the columns about characters that follow each other."""
    classes = class_of_code_points().take(batch.codes).astype(np.uint16)
    pairs = np.zeros(len(classes), np.uint16)
    np.multiply(classes[:-1], CLASSES, out=pairs[:-1])
    pairs[:-1] += classes[1:]
    pairs[~prose] = 0
    grammar, kana, affinity = (table.take(pairs) for table in pair_tables())
    whole = _grammar_share(_count(batch, grammar), _count(batch, japanese))
    return {
        "grammar_share": whole,
        "best_grammar_share": np.maximum(whole, _best_line(batch, grammar, japanese)),
        "kana_affinity": _count(batch, affinity) * AFFINITY_UNIT / (_count(batch, kana) + _NEUTRAL_PAIRS),
    }


def _best_line(batch: TextBatch, grammar: NDArray[np.int8], japanese: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the greatest share of grammar in a line with enough Japanese of each document; 0 if there is none."""
    starts = batch.line_starts[:-1]
    found, characters = (np.add.reduceat(values, starts, dtype=np.int64) for values in (grammar, japanese))
    shares = np.where(characters >= _BEST_LINE, _grammar_share(found, characters), 0)
    return np.asarray(np.maximum.reduceat(shares, batch.first_lines))


def _grammar_share(found: NDArray[Any], characters: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray((found + _NEUTRAL_GRAMMAR) / (characters + _NEUTRAL_CHARACTERS))


def _count(batch: TextBatch, values: NDArray[np.bool_] | NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the sum over each text of small values, shape [documents]. Those of line feeds after texts are zero."""
    return np.add.reduceat(values, batch.starts[:-1], dtype=np.int64).astype(np.float64)


@functools.cache
def _is_decoration() -> NDArray[np.bool_]:
    table = np.equal(kind_of_code_points(), KINDS.index("symbol"))
    table[:0x80] = False
    table[[ord("!"), ord("！")]] = True
    return table
