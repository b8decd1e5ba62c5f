"""Sudachi through SudachiPy, with its core dictionary (the extra `sudachi`)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.inprocess import InProcess, library, sha256
from jprep.corpus.step import StepConfig

NEEDS = "'jprep[sudachi]'"


class SudachiSegmenter(InProcess):
    """Sudachi's words, in the split mode of one's choice.

    SudachiPy takes 49,149 bytes at most, and 65,535 after its own normalisation, which can make one character twelve
    times as long (U+FDFA): texts over 4,096 bytes are cut.
    """

    name = "sudachi"
    version = 1
    max_bytes = 4096

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            mode: A gives short units (as UniDic's), B middle ones, C whole named entities; C is Sudachi's own default.
        """

        mode: Literal["A", "B", "C"] = "C"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        sudachipy = library("sudachipy", NEEDS)
        self._dictionary = Path(library("sudachidict_core", NEEDS).__file__ or "").parent / "resources" / "system.dic"
        dictionary = sudachipy.Dictionary(dict="core")
        # SudachiPy 0.7 calls `tokenizer` what 0.6 called `create`.
        make = getattr(dictionary, "tokenizer", None) or dictionary.create
        self._tokenize = make(getattr(sudachipy.SplitMode, self.config.mode)).tokenize

    def mark(self, text: str) -> str:
        """The surfaces of one text's morphemes."""
        return WORD.join([morpheme.surface() for morpheme in self._tokenize(text)])

    def provenance(self) -> dict[str, str]:
        """Versions of SudachiPy and the dictionary's package, hash of the dictionary."""
        return {
            "sudachipy": metadata.version("sudachipy"),
            "sudachidict-core": metadata.version("sudachidict-core"),
            "sudachidict-core/system.dic": sha256(self._dictionary),
        }
