"""Words of a list in a text, counted as published filter sets count them. The lists come from the user."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.published.swallow import SwallowLetters, ratio
from jprep.corpus.step import Signal, StepConfig
from jprep.errors import ConfigError, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KATAKANA = "ァ-ヴー"
_FORM = "write one word per line, in UTF-8"
_KATAKANA_WORD = re.compile(rf"[{_KATAKANA}]+")


class PublishedWords(Signal):
    """Words of a list, by the definition of a filter set.

    Definitions (all continue after a match):
    - `swallow`: the longest word at each place; characters of all matches per Japanese letter as Swallow counts them.
    - `llm-jp`: the first word of the list at each place, those of katakana last and only where no katakana stands
      before or behind; the number of matches.
    - `hojichar`: as `llm-jp` without the order of katakana words; the number of matches.
    - `uzushio`: the longest word at each place in a line, lines of the list that begin with # left out; the number of
      different words.
    """

    name = "published_words"
    version = 1
    local = frozenset({"path"})

    class Config(StepConfig, frozen=True):
        """Options of the signal `published_words`.

        Attributes:
            path: the list in UTF-8, one word per line; blank lines are ignored.
            definition: how words are found and counted.
            column: name of the column.
        """

        path: str = ""
        definition: Literal["swallow", "llm-jp", "hojichar", "uzushio"] = "llm-jp"
        column: str = "listed_words"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        if not self.config.path:
            raise ConfigError("a list of words is needed", where=f"signal {self.name!r}", fix='path = "words.txt"')
        data = self._read()
        self._sha256 = hashlib.sha256(data).hexdigest()
        self._find = _pattern(self._words(data), self.config.definition).finditer

    def _read(self) -> bytes:
        try:
            return Path(self.config.path).expanduser().read_bytes()
        except OSError as error:
            what = f"the list of words cannot be read: {error.strerror}"
            raise InputError(what, where=self.config.path, fix="name a readable file") from error

    def _words(self, data: bytes) -> list[str]:
        try:
            lines = data.decode().splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"the list of words is not UTF-8: {error}", where=self.config.path, fix=_FORM) from error
        if self.config.definition == "uzushio":
            lines = [line for line in lines if not line.startswith("#")]
        words = [word for line in lines if (word := line.strip())]
        if not words:
            raise InputError("the list has no words", where=self.config.path, fix=_FORM)
        return words

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of what is measured."""
        return (self.config.column,)

    def provenance(self) -> dict[str, str]:
        """Return the hash of the list."""
        return {"list": self._sha256}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return the column for all documents of a batch."""
        count = _COUNTS[self.config.definition]
        values = np.array([count(found.group() for found in self._find(text)) for text in batch.texts], np.float64)
        if self.config.definition == "swallow":
            values = ratio(values, SwallowLetters().measure(batch)["swallow_japanese_letters"])
        return {self.config.column: values}


def _number(matches: Iterable[str]) -> int:
    return sum(1 for _ in matches)


def _characters(matches: Iterable[str]) -> int:
    return sum(map(len, matches))


def _different(matches: Iterable[str]) -> int:
    return len(set(matches))


_COUNTS: dict[str, Callable[[Iterable[str]], int]] = {
    "swallow": _characters,
    "llm-jp": _number,
    "hojichar": _number,
    "uzushio": _different,
}


def _pattern(words: list[str], definition: str) -> re.Pattern[str]:
    """Return a pattern that finds the words: the first alternative that matches at a place wins."""
    if definition in ("swallow", "uzushio"):
        words = sorted(set(words), key=len, reverse=True)
    if definition != "llm-jp":
        return re.compile("|".join(map(re.escape, words)))
    katakana = [word for word in words if _KATAKANA_WORD.fullmatch(word)]
    other = [re.escape(word) for word in words if not _KATAKANA_WORD.fullmatch(word)]
    alone = [rf"(?<![{_KATAKANA}])(?:{'|'.join(katakana)})(?![{_KATAKANA}])"] if katakana else []
    return re.compile("|".join(other + alone))
