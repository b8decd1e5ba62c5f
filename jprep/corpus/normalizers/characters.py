"""Delete or replace given characters."""

from __future__ import annotations

import operator
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal

from jprep.corpus.document import SENTENCE, WORD
from jprep.corpus.step import Normalizer, StepConfig
from jprep.errors import ConfigError

_LINE_ENDS = {"\n", WORD, SENTENCE}
"""Characters that have a meaning for jprep, and therefore no other one."""

_RANGE = re.compile(r"U\+([0-9A-Fa-f]{4,6})(?:-U\+([0-9A-Fa-f]{4,6}))?")
Category = Literal[
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
    "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn",
]  # fmt: skip
"""Unicode general categories, without surrogates."""

CodeRange = tuple[int, int]
"""The first and the last code point of a range."""


class CharactersNormalizer(Normalizer):
    """Deletes given characters, replaces others, and counts each of them.

    All replacements happen at once. No replacement may contain a character that is deleted or replaced, so the result
    of a second pass is the same.
    """

    name = "characters"
    version = 1

    class Config(StepConfig, frozen=True):
        """The characters. A single character of `delete` or `map` takes precedence over ranges and categories.

        Attributes:
            delete: characters to delete.
            ranges: ranges of code points to delete, e.g. `U+2500-U+257F`.
            categories: Unicode general categories to delete, e.g. `Co`; line feeds are kept.
            map: character → text that replaces it, e.g. `{ "髙" = "高" }`.
        """

        delete: str = ""
        ranges: tuple[str, ...] = ()
        categories: tuple[Category, ...] = ()
        map: dict[str, str] = {}

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._groups = deletion_groups(self.config)
        _check(self.config, self._groups)
        found = [one for group in self._groups.values() for one in group] + [(ord(one),) * 2 for one in self.config.map]
        self._affected = re.compile(character_class(found) if found else "(?!)")
        self._names: dict[str, str] = {}

    def provenance(self) -> dict[str, str]:
        """Return the version of Python's Unicode tables, if categories depend on it."""
        return {"unidata_version": unicodedata.unidata_version} if self.config.categories else {}

    def apply(self, text: str) -> str:
        """Delete and replace characters. Count each one, those of ranges and categories together; and changed lines."""
        counts = Counter(self._affected.findall(text))
        if not counts:
            return text
        for character, count in counts.items():
            self.tally[self._name(character)] += count
        replacements = self.config.map
        result = self._affected.sub(lambda found: replacements.get(found[0], ""), text)
        changed = sum(map(operator.ne, text.split("\n"), result.split("\n")))
        if changed:
            self.tally["lines_changed"] += changed
        return result

    def _name(self, character: str) -> str:
        """Return the name of a character's count."""
        if character not in self._names:
            self._names[character] = f"replaced.{_code(character)}" if character in self.config.map else ""
            for name, ranges in self._groups.items():
                if not self._names[character] and any(first <= ord(character) <= last for first, last in ranges):
                    self._names[character] = f"deleted.{name}"
        return self._names[character]


def deletion_groups(config: CharactersNormalizer.Config) -> dict[str, list[CodeRange]]:
    """Return the deleted characters by the name of their count: each single one, then ranges, then categories.

    Raises:
        ConfigError: a malformed range, or an unknown category.
    """
    groups: dict[str, list[CodeRange]] = {_code(one): [(ord(one), ord(one))] for one in config.delete}
    mapped = frozenset(map(ord, (one for one in config.map if len(one) == 1)))
    groups |= {text: _without(_parse_range(text), mapped) for text in config.ranges}
    return groups | {name: [*_split(_category(name), mapped)] for name in config.categories}


def character_class(ranges: Iterable[CodeRange]) -> str:
    """Return a regular expression that matches a character of some ranges, for Python and for `tokenizers`."""
    parts = (_escape(first) if first == last else f"{_escape(first)}-{_escape(last)}" for first, last in ranges)
    return f"[{''.join(parts)}]"


def _escape(code: int) -> str:
    character = chr(code)
    return f"\\{character}" if character in "\\[]^-&~|" else character


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _parse_range(text: str) -> CodeRange:
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1], 16), int(found[2] or found[1], 16)) if found else (1, 0)
    surrogates = any(0xD800 <= code <= 0xDFFF for code in (first, last))  # no text has them, no tokenizer.json can
    if surrogates or not first <= last <= sys.maxunicode:
        raise ConfigError(f"{text!r} is not a range of characters", where=_WHERE, fix='e.g. "U+2500-U+257F"')
    return first, last


def _without(one: CodeRange, kept: frozenset[int]) -> list[CodeRange]:
    return [*_split([one], kept)]


def _split(ranges: Iterable[CodeRange], kept: frozenset[int]) -> Iterator[CodeRange]:
    """Yield ranges without some code points."""
    for first, last in ranges:
        for code in sorted(code for code in kept if first <= code <= last):
            if first < code:
                yield first, code - 1
            first = code + 1
        if first <= last:
            yield first, last


@cache
def _category(name: Category) -> tuple[CodeRange, ...]:
    """Return the ranges of a Unicode general category, without line feeds, jprep's marks and surrogates."""
    kept, found, first = frozenset(map(ord, _LINE_ENDS)), [], -1
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)) == name and code not in kept
        if inside and first < 0:
            first = code
        elif not inside and first >= 0:
            found.append((first, code - 1))
            first = -1
    return tuple(found)


_WHERE = "normalizer 'characters'"


def _check(config: CharactersNormalizer.Config, groups: dict[str, list[CodeRange]]) -> None:
    """Check that characters are given once, and that one pass is enough.

    Raises:
        ConfigError: a key of `map` is not one character, a line feed or a mark would change, or characters collide.
    """
    for key in config.map:
        if len(key) != 1:
            raise ConfigError(f"map: {key!r} is not one character", where=_WHERE, fix='map = { "髙" = "高" }')
    single = [*config.delete, *config.map]
    if twice := [one for one in single if single.count(one) > 1]:
        raise ConfigError(f"{twice[0]!r} is given twice", where=_WHERE, fix="delete it, or map it, once")
    deleted = [one for group in groups.values() for one in group]
    texts = [*config.map, *config.map.values()]
    if any(first <= ord(end) <= last for end in _LINE_ENDS for first, last in deleted) or _LINE_ENDS & set(
        "".join(texts)
    ):
        fix = "leave out U+000A, U+001E and U+001F"
        raise ConfigError("line feeds and jprep's own marks cannot be changed", where=_WHERE, fix=fix)
    for key, text in config.map.items():
        if again := [one for one in text if one in config.map or any(a <= ord(one) <= b for a, b in deleted)]:
            fix = "map to the final text"
            raise ConfigError(
                f"map: {again[0]!r}, in the replacement of {key!r}, is itself changed", where=_WHERE, fix=fix
            )
