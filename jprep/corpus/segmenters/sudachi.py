"""Sudachi, through SudachiPy with its core dictionary (extra `sudachi`)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.library_segmenter import LibrarySegmenter, file_hash
from jprep.corpus.step import StepConfig
from jprep.libraries import import_library

NEEDS = "'jprep[sudachi]'"


class SudachiSegmenter(LibrarySegmenter):
    """Sudachi with a configurable split mode.

    SudachiPy accepts at most 49,149 bytes, and 65,535 bytes after its own normalization, which can make a character 12
    times longer (U+FDFA). Texts of more than 4,096 bytes are split.
    """

    name = "sudachi"
    version = 2
    max_bytes = 4096

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            mode: A gives short units (similar to UniDic's), B medium ones, C named entities. C is Sudachi's default.
        """

        mode: Literal["A", "B", "C"] = "C"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        sudachipy = import_library("sudachipy", "the segmenter needs sudachipy", NEEDS)
        installed = import_library("sudachidict_core", "the segmenter needs sudachidict_core", NEEDS)
        self._dictionary = Path(installed.__file__).parent / "resources" / "system.dic"
        dictionary = sudachipy.Dictionary(dict="core")
        # SudachiPy 0.7 renamed `create` to `tokenizer`.
        make = getattr(dictionary, "tokenizer", None) or dictionary.create
        self._tokenize = make(getattr(sudachipy.SplitMode, self.config.mode)).tokenize

    def mark(self, text: str) -> str:
        """Return the surfaces of the morphemes of a text.

        Of a character that SudachiPy normalizes to several (`…` to `...`), the morphemes after the first have none.
        """
        return WORD.join([surface for morpheme in self._tokenize(text) if (surface := morpheme.surface())])

    def provenance(self) -> dict[str, str]:
        """Return the versions of SudachiPy and the dictionary's package, and the hash of the dictionary."""
        return {
            "sudachipy": metadata.version("sudachipy"),
            "sudachidict-core": metadata.version("sudachidict-core"),
            "sudachidict-core/system.dic": file_hash(self._dictionary),
        }
