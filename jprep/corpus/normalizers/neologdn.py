"""neologdn's normalization with the same output, many times faster.

neologdn loops over characters. This implementation uses tables and a few rules about neighbors on many lines at once;
`docs/normalizing.md` lists them. If the installed neologdn differs from the tables, neologdn itself is called.
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from jprep.corpus.normalizers.neologdn_rules import NormalizedText
from jprep.corpus.normalizers.neologdn_tables import CONVERSIONS, TILDES, CharacterTables, Tilde, probe_text
from jprep.corpus.step import Normalizer, StepConfig

VERIFIED_VERSIONS = frozenset({"0.5.6"})
"""Versions for which tests compare the tables. Other versions are compared when they are first used."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL = re.escape("".join(characters for characters, _ in CONVERSIONS.values()) + TILDES)
_MAY_CHANGE = re.compile(rf"[{_SPECIAL}\ud800-\udfff](?:(?<!ー)|(?<=ーー))")
"""Any special character except a single ー, which is frequent and never changes."""
_BLOCK = 1 << 16
"""Characters processed at once, so that the arrays fit into the processor's cache. Lines are never split."""


class NeologdnNormalizer(Normalizer):
    """Applies `neologdn.normalize` to each line, and counts every kind of change."""

    name = "neologdn"
    version = 1

    class Config(StepConfig, frozen=True):
        """neologdn's options.

        Attributes:
            repeat: maximum number of consecutive repetitions of a string; 0 means no limit. Other values are slow.
            remove_space: remove spaces, except between words of Latin letters.
            max_repeat_substr_length: maximum length of the strings that `repeat` examines, in characters.
            tilde: how to treat ~∼∾〜〰～. `ignore` (the default of jprep) keeps them, so that 2020年〜2021年 stays a
                range; `remove` (the default of neologdn) deletes them; `normalize` replaces them by ~ and
                `normalize_zenkaku` by 〜.
            hangul_spaces: `remove`, as neologdn does, or `keep` one of the spaces before or after Hangul, which Korean
                needs; with `remove_space`. By default `remove`.
        """

        repeat: int = 0
        remove_space: bool = True
        max_repeat_substr_length: int = 8
        tilde: Tilde = "ignore"
        # Absent from fingerprints where it is not set, as before it existed.
        hangul_spaces: Literal["remove", "keep"] | msgspec.UnsetType = msgspec.UNSET

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._neologdn = importlib.import_module("neologdn")
        self._tables = CharacterTables(self.config.tilde)
        self._tables_are_valid = self._neologdn.__version__ in VERIFIED_VERSIONS or self._agrees()

    @property
    def _keeps_hangul(self) -> bool:
        """Whether spaces beside Hangul stay, which neologdn itself cannot do."""
        return bool(self.config.hangul_spaces == "keep")

    def _agrees(self) -> bool:
        """Return whether the installed neologdn gives the same result as the tables."""
        sample = probe_text()
        agrees = self._by_tables(sample) == self._by_neologdn(sample)
        self.tally.clear()
        return agrees

    def provenance(self) -> dict[str, str]:
        """Return the version of neologdn."""
        return {"neologdn": str(self._neologdn.__version__)}

    def apply(self, text: str) -> str:
        """Normalize each line. Count changed characters by kind, and changed lines.

        A lone surrogate, for which neologdn raises an error, is replaced by U+FFFD.
        """
        return "\n".join(map(self._apply, _blocks(text)))

    def _apply(self, block: str) -> str:
        normalize = self._by_tables if self._tables_are_valid or self._keeps_hangul else self._by_neologdn
        try:
            result = normalize(block)
        except UnicodeError:
            replaced, count = _LONE_SURROGATE.subn("\ufffd", block)
            self._count("surrogates.replaced", count)
            result = normalize(replaced)
        if result is not block:
            self._count("lines_changed", sum(map(operator.ne, block.split("\n"), result.split("\n"))))
        return result

    def _by_tables(self, block: str) -> str:
        if not _MAY_CHANGE.search(block):
            return self._shorten(block)
        kept = _remove_tildes(block) if self.config.tilde == "remove" else block
        page = NormalizedText(kept, self._tables, self.config.remove_space, keep_hangul=self._keeps_hangul)
        result = page.text()
        for name, count in page.counts() if result is not None else ():
            self._count(name, count)
        self._count("tildes.removed", len(block) - len(kept))
        return self._shorten(kept if result is None else result)

    def _shorten(self, block: str) -> str:
        if not self.config.repeat:
            return block
        limits = self.config.repeat, self.config.max_repeat_substr_length
        result = "\n".join(self._neologdn.shorten_repeat(line, *limits) for line in block.split("\n"))
        self._count("repeats.removed", len(block) - len(result))
        return result

    def _by_neologdn(self, block: str) -> str:
        """Call neologdn itself, which is slow and allows to count removed characters only."""
        fields = (field for field in self.config.__struct_fields__ if field != "hangul_spaces")
        options = {field: getattr(self.config, field) for field in fields}
        result = "\n".join(self._neologdn.normalize(line, **options) for line in block.split("\n"))
        self._count("characters.removed", len(block) - len(result))
        return result

    def _count(self, name: str, count: int) -> None:
        if count:
            self.tally[name] += count


def _remove_tildes(text: str) -> str:
    for tilde in TILDES:
        text = text.replace(tilde, "")
    return text


def _blocks(text: str) -> Iterator[str]:
    """Split a text at newlines into blocks of at least `_BLOCK` characters."""
    start = 0
    while (end := text.find("\n", start + _BLOCK)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]
