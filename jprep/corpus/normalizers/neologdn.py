"""neologdn's normalisation, byte for byte, many times as fast.

neologdn is a loop over characters. The same result comes from tables and a few rules about neighbours, applied to many
lines at once; `docs/normalizing.md` lists them. Where the installed neologdn turns out to differ from the tables,
neologdn itself does the work.
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Iterator
from typing import Any

from jprep.corpus.normalizers.neologdn_rules import NormalizedText
from jprep.corpus.normalizers.neologdn_tables import CONVERSIONS, TILDES, CharacterTables, Tilde, probe_text
from jprep.corpus.step import Normalizer, StepConfig

VERIFIED_VERSIONS = frozenset({"0.5.6"})
"""Versions that the tests hold the tables against; another one is held against them when it is first used."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL = re.escape("".join(characters for characters, _ in CONVERSIONS.values()) + TILDES)
_MAY_CHANGE = re.compile(rf"[{_SPECIAL}\ud800-\udfff](?:(?<!ー)|(?<=ーー))")
"""Any special character but a lone ー, which is in every other line and stays."""
_BLOCK = 1 << 16
"""Characters that are worked on at once, so that the arrays stay in the processor's cache; a line is never cut."""


class NeologdnNormalizer(Normalizer):
    """What `neologdn.normalize` makes of each line, with counts of every kind of change."""

    name = "neologdn"
    version = 1

    class Config(StepConfig, frozen=True):
        """neologdn's options.

        Attributes:
            repeat: how often in a row a string may stand; 0 leaves repeats alone. Anything else is slow.
            remove_space: remove spaces, except between words of Latin letters.
            max_repeat_substr_length: the longest string that `repeat` looks at, in characters.
            tilde: what becomes of ~∼∾〜〰～. `ignore`, jprep's own default, leaves them, so that 2020年〜2021年 stays a
                range; neologdn's own default is `remove`. `normalize` makes them ~, `normalize_zenkaku` 〜.
        """

        repeat: int = 0
        remove_space: bool = True
        max_repeat_substr_length: int = 8
        tilde: Tilde = "ignore"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._neologdn = importlib.import_module("neologdn")
        self._tables = CharacterTables(self.config.tilde)
        self._known = self._neologdn.__version__ in VERIFIED_VERSIONS or self._agrees()

    def _agrees(self) -> bool:
        """Whether the installed neologdn does what the tables say."""
        sample = probe_text()
        agrees = self._by_tables(sample) == self._by_neologdn(sample)
        self.tally.clear()
        return agrees

    def provenance(self) -> dict[str, str]:
        """neologdn's version."""
        return {"neologdn": str(self._neologdn.__version__)}

    def apply(self, text: str) -> str:
        """Normalise each line; count changed characters per kind, and changed lines.

        A lone surrogate, at which neologdn raises, becomes U+FFFD.
        """
        return "\n".join(map(self._apply, _blocks(text)))

    def _apply(self, block: str) -> str:
        normalize = self._by_tables if self._known else self._by_neologdn
        try:
            result = normalize(block)
        except UnicodeError:
            mended, count = _LONE_SURROGATE.subn("\ufffd", block)
            self._count("surrogates.replaced", count)
            result = normalize(mended)
        if result is not block:
            self._count("lines_changed", sum(map(operator.ne, block.split("\n"), result.split("\n"))))
        return result

    def _by_tables(self, block: str) -> str:
        if not _MAY_CHANGE.search(block):
            return self._shorten(block)
        kept = _without_tildes(block) if self.config.tilde == "remove" else block
        page = NormalizedText(kept, self._tables, self.config.remove_space)
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
        """The slow way, which can only tell by how much the text shrank."""
        options = {field: getattr(self.config, field) for field in self.config.__struct_fields__}
        result = "\n".join(self._neologdn.normalize(line, **options) for line in block.split("\n"))
        self._count("characters.removed", len(block) - len(result))
        return result

    def _count(self, name: str, count: int) -> None:
        if count:
            self.tally[name] += count


def _without_tildes(text: str) -> str:
    for tilde in TILDES:
        text = text.replace(tilde, "")
    return text


def _blocks(text: str) -> Iterator[str]:
    """Cut a text at newlines into blocks, most of them of `_BLOCK` characters or a little more."""
    start = 0
    while (end := text.find("\n", start + _BLOCK)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]
