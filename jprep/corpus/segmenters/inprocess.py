"""What segmenters that call a library of this process share: nothing lost, nothing too long, every refusal counted."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.pieces import long_runs, pieces, restore
from jprep.corpus.step import Segmenter
from jprep.errors import MachineError
from jprep.io.atomic import file_sha256


class InProcess(Segmenter):
    """A segmenter whose analyser is a library.

    Attributes:
        max_bytes: the longest text the analyser is given, in bytes of UTF-8; a longer one is cut at sentence ends.
        max_run: characters of one kind in a row that the analyser is given; a longer run is cut. 0 is no limit.
    """

    max_bytes: ClassVar[int]
    max_run: ClassVar[int] = 0

    @abstractmethod
    def mark(self, text: str) -> str:
        """The analyser's words joined by U+001F; white space, and what follows a NUL, may be missing."""

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Mark each text; one that the analyser did not give back whole is restored, or counted as `unsegmented`."""
        marked = []
        for text in texts:
            try:
                words = self.mark(text) if self._fits(text) else ""
            except UnicodeError:
                words = ""
            marked.append(words if words.replace(WORD, "") == text else self._mend(text, words))
        return marked

    def _fits(self, text: str) -> bool:
        """Whether the analyser can be given a text whole."""
        return len(text) * 4 <= self.max_bytes and (not 0 < self.max_run < len(text) or not self._runs.search(text))

    @cached_property
    def _runs(self) -> re.Pattern[str]:
        return long_runs(self.max_run)

    def _mend(self, text: str, words: str) -> str:
        """Put back what was lost from `words`, or analyse the text again in pieces."""
        if words and WORD not in text and (restored := restore(text, words.split(WORD))):
            return WORD.join(restored)
        reason = refusal(text)
        restored = None if reason else self._piecewise(text)
        if restored is None:
            self.tally[f"unsegmented.{reason or 'changed'}"] += 1
            return text
        return WORD.join(restored)

    def _piecewise(self, text: str) -> list[str] | None:
        found: list[str] = []
        for piece in self._pieces(text):
            words = self._analyse(piece)
            if words is None:
                return None
            found += words
        return found

    def _pieces(self, text: str) -> Iterator[str]:
        for piece in pieces(text, self.max_bytes):
            yield from filter(None, self._runs.split(piece)) if self.max_run else (piece,)

    def _analyse(self, piece: str) -> list[str] | None:
        """The words of a piece; None where the analyser changed it."""
        if len(piece) == 1:
            return [piece]
        try:
            return restore(piece, self.mark(piece).split(WORD))
        except UnicodeDecodeError:
            # jumandic has entries (of old orthography: でせうか) that end inside a character: the halves do without.
            self.tally["halved.undecodable"] += 1
            first, second = self._analyse(piece[: len(piece) // 2]), self._analyse(piece[len(piece) // 2 :])
            return None if first is None or second is None else first + second


def refusal(text: str) -> str:
    """Why no analyser can be given this text, or ""."""
    if WORD in text:
        return "mark"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "surrogate"
    return ""


def library(name: str, needs: str) -> ModuleType:
    """Import an analyser's package.

    Raises:
        MachineError: it is not installed; the fix is `pip install` of `needs`.
    """
    try:
        return import_module(name)
    except ImportError as error:
        what = f"the Python package {name} cannot be imported: {error}"
        raise MachineError(what, fix=f"pip install {needs}") from error


def sha256(path: Path) -> str:
    """A dictionary's or model's hash, `sha256:…`, computed once a process for each state of the file."""
    stat = path.stat()
    return _sha256(path, stat.st_size, stat.st_mtime_ns)


@cache
def _sha256(path: Path, size: int, changed: int) -> str:
    return f"sha256:{file_sha256(path)}"
