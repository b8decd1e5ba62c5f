"""Base class of segmenters that call a library: restores lost characters, splits long texts, counts failures."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.text_pieces import long_run_pattern, restore_spaces, split_text
from jprep.corpus.step import Segmenter
from jprep.io.atomic import file_sha256


class LibrarySegmenter(Segmenter):
    """A segmenter that calls a library in this process, for one text at a time.

    A subclass defines `mark` and `max_bytes`. `segment` restores white space that the library removes and splits texts
    that are too long for it. It returns a text unchanged that it cannot process, and counts it as `unsegmented.REASON`:
    `mark` (the text has U+001F), `surrogate` (a lone surrogate), or `changed` (the words are not those of the text).

    Attributes:
        max_bytes: maximum length of a text in bytes of UTF-8, at least 4. Longer texts are split at the ends of
            sentences, else at commas and spaces, else anywhere.
        max_run: maximum number of consecutive characters of one kind (kana, digits, letters, symbols, white space).
            Longer runs are split; 0 means no limit.
    """

    max_bytes: ClassVar[int]
    max_run: ClassVar[int] = 0

    @abstractmethod
    def mark(self, text: str) -> str:
        """Return the words of a text joined by U+001F. White space, and text after a NUL, may be missing.

        Args:
            text: a sentence or a piece of one.

        Raises:
            UnicodeError: the library cannot encode the text, or decode its words; `segment` then tries shorter pieces.
        """

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Insert U+001F between the words of each text; see the class for texts that the library changes or refuses."""
        marked = []
        for text in texts:
            try:
                text.encode()  # some libraries take lone surrogates, which no file can store
                words = self.mark(text) if self._fits(text) else ""
            except UnicodeError:
                words = ""
            marked.append(words if words.replace(WORD, "") == text else self._repair(text, words))
        return marked

    def _fits(self, text: str) -> bool:
        """Return whether a text is short enough for one call of the library."""
        return len(text) * 4 <= self.max_bytes and (not 0 < self.max_run < len(text) or not self._runs.search(text))

    @cached_property
    def _runs(self) -> re.Pattern[str]:
        return long_run_pattern(self.max_run)

    def _repair(self, text: str, words: str) -> str:
        """Restore what is missing in `words`, or segment the text again in pieces."""
        if words and WORD not in text and (restored := restore_spaces(text, words.split(WORD))):
            return WORD.join(restored)
        reason = unsupported_reason(text)
        restored = None if reason else self._segment_pieces(text)
        if restored is None:
            self.tally[f"unsegmented.{reason or 'changed'}"] += 1
            return text
        return WORD.join(restored)

    def _segment_pieces(self, text: str) -> list[str] | None:
        found: list[str] = []
        for piece in self._pieces(text):
            words = self._analyze(piece)
            if words is None:
                return None
            found += words
        return found

    def _pieces(self, text: str) -> Iterator[str]:
        for piece in split_text(text, self.max_bytes):
            yield from filter(None, self._runs.split(piece)) if self.max_run else (piece,)

    def _analyze(self, piece: str) -> list[str] | None:
        """Return the words of a piece, or None if the library changed the text."""
        if len(piece) == 1:
            return [piece]
        try:
            return restore_spaces(piece, self.mark(piece).split(WORD))
        except UnicodeError:
            # Some entries of jumandic (in old orthography: でせうか) end inside a character. Halving avoids them.
            self.tally["halved.undecodable"] += 1
            first, second = self._analyze(piece[: len(piece) // 2]), self._analyze(piece[len(piece) // 2 :])
            return None if first is None or second is None else first + second


def unsupported_reason(text: str) -> str:
    """Return why no analyzer can process a text (`mark`, `surrogate`), or ""."""
    if WORD in text:
        return "mark"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "surrogate"
    return ""


def file_hash(path: Path) -> str:
    """Return the hash of a dictionary or model, `sha256:…`, computed once per process and state of the file."""
    stat = path.stat()
    return _sha256(path, stat.st_size, stat.st_mtime_ns)


@cache
def _sha256(path: Path, size: int, changed: int) -> str:
    return f"sha256:{file_sha256(path)}"
