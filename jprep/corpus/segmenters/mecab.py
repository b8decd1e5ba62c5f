"""MeCab through fugashi: `jumandic`, the default, with JUMAN's words, and `unidic`, with UniDic's short units."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.inprocess import InProcess, library, sha256


class MecabSegmenter(InProcess):
    """MeCab with a dictionary that comes as a Python package.

    MeCab skips white space, ends at NUL and counts a word with the spaces before it in 16 bits, so that 64 kB of spaces
    make it lose what follows; its lattice takes some 300 bytes a byte of text. Before each character of a run of one
    kind (symbols, katakana, Latin letters, spaces) it looks for the run's end: quadratic, so that long runs are cut.

    Attributes:
        package: the dictionary's distribution; its module holds `DICDIR`.
        needs: what pip installs to get it.
    """

    max_bytes = 16_384
    max_run = 512
    package: ClassVar[str]
    needs: ClassVar[str]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        fugashi = library("fugashi", self.needs)
        self._dictionary = Path(library(self.package.replace("-", "_"), self.needs).DICDIR)
        # The dictionary brings its own mecabrc: a system without MeCab has none elsewhere.
        options = ["-Owakati", "-d", str(self._dictionary), "-r", str(self._dictionary / "mecabrc")]
        self._parse = fugashi.GenericTagger(shlex.join(options)).parse

    def mark(self, text: str) -> str:
        """The words of one text, as MeCab's own `wakati` output gives them."""
        words: str = self._parse(text)
        return words.replace(" ", WORD)

    def provenance(self) -> dict[str, str]:
        """Versions of fugashi and the dictionary's package, hash of the compiled dictionary."""
        return {
            "fugashi": metadata.version("fugashi"),
            self.package: metadata.version(self.package),
            f"{self.package}/sys.dic": sha256(self._dictionary / "sys.dic"),
        }


class JumandicSegmenter(MecabSegmenter):
    """MeCab with JUMAN's dictionary: words close to Juman++'s, several times as fast, and pip alone installs it."""

    name = "jumandic"
    version = 2
    package = "jumandic"
    needs = "fugashi jumandic"


class UnidicSegmenter(MecabSegmenter):
    """UniDic's short units from MeCab with unidic-lite (the extra `unidic`)."""

    name = "unidic"
    version = 2
    package = "unidic-lite"
    needs = "'jprep[unidic]'"
