"""MeCab, through fugashi: `jumandic` (JUMAN's words) and `unidic` (UniDic's short units)."""

from __future__ import annotations

import re
import shlex
from importlib import metadata
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, ClassVar

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.library_segmenter import LibrarySegmenter, file_hash
from jprep.libraries import import_library

_READING = re.compile(r"(?<=[一-鿿々〆ヶァ-ヴー])[（(]([ぁ-ゖー]{2,40})(?=[）)、，,；; \u3000])")
_BEFORE = 40  # characters before a bracket in which the words of a reading are looked for
_READING_FIELD = 5  # of JumanDIC's features
_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}


class MecabSegmenter(LibrarySegmenter):
    """MeCab with a dictionary from a Python package.

    MeCab skips white space and stops at NUL. It stores the length of a word with its preceding spaces in 16 bits, so
    text after 64 kB of spaces is lost. Its lattice takes about 300 bytes per byte of text. In a run of one kind
    (symbols, katakana, Latin letters, spaces) it searches the end of the run from each character, which is quadratic:
    long runs are split.

    Attributes:
        package: distribution of the dictionary; its module has the attribute `DICDIR`.
    """

    max_bytes = 16_384
    max_run = 512
    package: ClassVar[str]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        needs, module = f"'jprep[{self.name}]'", self.package.replace("-", "_")
        fugashi = import_library("fugashi", "the segmenter needs fugashi", needs)
        self._dictionary = Path(import_library(module, f"the segmenter needs {module}", needs).DICDIR)
        # Use the mecabrc of the dictionary: without an installed MeCab there is no other one.
        options = ["-Owakati", "-d", str(self._dictionary), "-r", str(self._dictionary / "mecabrc")]
        self._tagger = fugashi.GenericTagger(shlex.join(options))

    def mark(self, text: str) -> str:
        """Return the words of a text, as in MeCab's `wakati` output."""
        words: str = self._tagger.parse(text)
        return words.replace(" ", WORD)

    def provenance(self) -> dict[str, str]:
        """Return the versions of fugashi and the dictionary's package, and the hash of the compiled dictionary."""
        return {
            "fugashi": metadata.version("fugashi"),
            self.package: metadata.version(self.package),
            f"{self.package}/sys.dic": file_hash(self._dictionary / "sys.dic"),
        }


class JumandicSegmenter(MecabSegmenter):
    """MeCab with JUMAN's dictionary (extra `jumandic`): words similar to Juman++'s, several times faster.

    U+3000 is a word of its own, as in JUMAN's standard: MeCab joins it with the signs around it. A reading in brackets
    is cut as the words that it belongs to, where their readings in the dictionary join to it.
    """

    name = "jumandic"
    version = 4
    package = "jumandic"

    def mark(self, text: str) -> str:
        """Return the words of a text, with U+3000 as a word of its own, and readings cut as the words before them."""
        words = super().mark(text)
        if "\u3000" in words:
            words = WORD.join(filter(None, words.replace("\u3000", f"{WORD}\u3000{WORD}").split(WORD)))
        return self._cut_readings(words) if _READING.search(text) else words

    def _cut_readings(self, words: str) -> str:
        text = words.replace(WORD, "")
        bounds = set(accumulate(map(len, words.split(WORD))))
        for found in _READING.finditer(text):
            if lengths := self._lengths_of_readings(text[: found.start()][-_BEFORE:], found[1]):
                bounds.difference_update(range(*found.span(1)))
                bounds.update(accumulate(lengths, initial=found.start(1)))
        return WORD.join(text[start:end] for start, end in pairwise(sorted({0, *bounds})))

    def _lengths_of_readings(self, before: str, reading: str) -> list[int]:
        """Return the lengths of the readings of the last words that join to a reading; [] if none do."""
        try:
            known = [_reading(node) for node in self._tagger(before)]
        except UnicodeDecodeError:  # see `LibrarySegmenter._analyze`
            return []
        rest, lengths = reading, list[int]()
        while known and rest.endswith(known[-1]):
            lengths.insert(0, len(known[-1]))
            rest = rest.removesuffix(known.pop())
            if not rest:
                return lengths
        return []


def _reading(node: Any) -> str:
    """Return the reading of a word in hiragana; of a word that the dictionary does not have, the word itself."""
    known = len(node.feature) > _READING_FIELD and node.feature[_READING_FIELD] != "*"
    shown: str = node.feature[_READING_FIELD] if known else node.surface
    return shown.translate(_HIRAGANA)


class UnidicSegmenter(MecabSegmenter):
    """MeCab with unidic-lite: UniDic's short units (extra `unidic`)."""

    name = "unidic"
    version = 2
    package = "unidic-lite"
