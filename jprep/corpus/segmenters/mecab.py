"""MeCab, through fugashi: `jumandic` (the default, JUMAN's words) and `unidic` (UniDic's short units)."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.library_segmenter import LibrarySegmenter, file_hash
from jprep.libraries import import_library


class MecabSegmenter(LibrarySegmenter):
    """MeCab with a dictionary from a Python package.

    MeCab skips white space and stops at NUL. It stores the length of a word with its preceding spaces in 16 bits, so
    text after 64 kB of spaces is lost. Its lattice takes about 300 bytes per byte of text. In a run of one kind
    (symbols, katakana, Latin letters, spaces) it searches the end of the run from each character, which is quadratic:
    long runs are split.

    Attributes:
        package: distribution of the dictionary; its module has the attribute `DICDIR`.
        needs: arguments of `pip install` for fugashi and the dictionary.
    """

    max_bytes = 16_384
    max_run = 512
    package: ClassVar[str]
    needs: ClassVar[str]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        fugashi = import_library("fugashi", "the segmenter needs fugashi", self.needs)
        module = self.package.replace("-", "_")
        self._dictionary = Path(import_library(module, f"the segmenter needs {module}", self.needs).DICDIR)
        # Use the mecabrc of the dictionary: without an installed MeCab there is no other one.
        options = ["-Owakati", "-d", str(self._dictionary), "-r", str(self._dictionary / "mecabrc")]
        self._parse = fugashi.GenericTagger(shlex.join(options)).parse

    def mark(self, text: str) -> str:
        """Return the words of a text, as in MeCab's `wakati` output."""
        words: str = self._parse(text)
        return words.replace(" ", WORD)

    def provenance(self) -> dict[str, str]:
        """Return the versions of fugashi and the dictionary's package, and the hash of the compiled dictionary."""
        return {
            "fugashi": metadata.version("fugashi"),
            self.package: metadata.version(self.package),
            f"{self.package}/sys.dic": file_hash(self._dictionary / "sys.dic"),
        }


class JumandicSegmenter(MecabSegmenter):
    """MeCab with JUMAN's dictionary: words similar to Juman++'s, several times faster, installed by pip alone.

    U+3000 is a word of its own, as in JUMAN's standard: MeCab joins it with the signs around it.
    """

    name = "jumandic"
    version = 3
    package = "jumandic"
    needs = "fugashi jumandic"

    def mark(self, text: str) -> str:
        """Return the words of a text, as in MeCab's `wakati` output, with U+3000 as a word of its own."""
        words = super().mark(text)
        if "\u3000" in words:
            words = WORD.join(filter(None, words.replace("\u3000", f"{WORD}\u3000{WORD}").split(WORD)))
        return words


class UnidicSegmenter(MecabSegmenter):
    """MeCab with unidic-lite: UniDic's short units (extra `unidic`)."""

    name = "unidic"
    version = 2
    package = "unidic-lite"
    needs = "'jprep[unidic]'"
