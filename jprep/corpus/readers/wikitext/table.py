"""The table of templates: loading it from TOML, and the small language that its formats are written in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from jprep.corpus.readers.wikitext.eras import with_era
from jprep.errors import ConfigError

BUILT_IN = (Path(__file__).parent / "templates.toml", Path(__file__).parent / "names.toml")

Arguments = Mapping[str, str]
_TOKEN = re.compile(r"\\(.)|\{([^{}]+)\}|([\[\]])|([^\\{}\[\]]+)", re.S)


class Show(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a table: what the templates of these names show.

    Attributes:
        format: a format, or several of which the first that gives anything is taken; "" shows nothing.
        names: the templates' names. The case of the first letter is free, of the others too unless two names differ
            in it; `*` stands for any text.
        names_from: the name of a lookup whose every key is a template's name as well.
    """

    format: str | list[str]
    names: list[str] = []
    names_from: str = ""


class TableFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole table file.

    Attributes:
        show: what templates show, one entry after another.
        lookup: lists of values by key, for formats to look up, e.g. languages by code.
        labels: words that announce what follows a colon, and go where that was dropped.
    """

    show: list[Show] = []
    lookup: dict[str, dict[str, str]] = {}
    labels: list[str] = []


class Format:
    """A compiled format.

    `{key}` is the argument of that name or number, `{a|b}` the first of two that is not empty, `{key:lookup}` the value
    that a lookup has for it, `{2+sep}` all arguments from the second on, joined by `sep`; `{*}` is what `*` in the
    template's name stands for. `[…]` is left out where a field in it is empty; where a field outside is, the format gives nothing. A backslash takes a sign's meaning away.

    Args:
        source: the format as the table has it.
        lookups: values by key, by the lookup's name.

    Raises:
        ValueError: the format cannot be read.
    """

    def __init__(self, source: str, lookups: Mapping[str, Callable[[str], str]]) -> None:
        self._parts: list[tuple[bool, list[str | list[_Field]]]] = [(False, [])]
        end = 0
        for match in _TOKEN.finditer(source):
            escaped, field, bracket, plain = match.groups()
            if match.start() != end or (bracket and (bracket == "[") == self._parts[-1][0]):
                raise ValueError(f"unreadable at character {match.start() + 1} of {source!r}")
            end = match.end()
            if bracket:
                self._parts.append((bracket == "[", []))
            else:
                self._parts[-1][1].append([_Field(key, lookups) for key in field.split("|")] if field else escaped or plain)
        if end != len(source) or self._parts[-1][0]:
            raise ValueError(f"{source!r} does not end well")

    def fill(self, arguments: Arguments) -> str:
        """The text that a template with these arguments shows; "" where a field outside of brackets has no value."""
        out: list[str] = []
        for optional, pieces in self._parts:
            values = [piece if isinstance(piece, str) else _first(piece, arguments) for piece in pieces]
            if all(values):
                out += values
            elif not optional:
                return ""
        return "".join(out)


class _Field:
    """One alternative of a field: an argument, perhaps looked up."""

    def __init__(self, source: str, lookups: Mapping[str, Callable[[str], str]]) -> None:
        key, _, lookup = source.partition(":")
        self._key, plus, self._separator = key.partition("+")
        self._many = bool(plus)
        if lookup and lookup not in lookups:
            raise ValueError(f"no lookup is called {lookup!r}")
        self._lookup = lookups[lookup] if lookup else str

    def value(self, arguments: Arguments) -> str:
        if not self._many:
            value = arguments.get(self._key, "")
            return self._lookup(value) if value else ""
        numbered = (arguments[str(n)] for n in range(int(self._key), len(arguments) + 1) if str(n) in arguments)
        return self._separator.join(self._lookup(value) for value in numbered if value)


def _first(fields: list[_Field], arguments: Arguments) -> str:
    return next((value for field in fields if (value := field.value(arguments))), "")


class Table:
    """What templates show, by their names.

    Args:
        paths: further table files; a later entry takes the place of an earlier one of the same name.

    Raises:
        ConfigError: a file cannot be read, or an entry of it is wrong.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.hashes: dict[str, str] = {}
        self.lookups: dict[str, dict[str, str]] = {}
        self.labels: set[str] = set()
        self._formats: dict[str, list[Format]] = {}
        self._patterns: list[tuple[re.Pattern[str], list[Format]]] = []
        files = [(path, self._read(path)) for path in (*BUILT_IN, *map(Path, paths))]
        for _, file in files:
            self.labels.update(file.labels)
            for name, values in file.lookup.items():
                self.lookups.setdefault(name, {}).update(values)
        functions = {name: _getter(values) for name, values in self.lookups.items()} | {"era": with_era}
        for path, file in files:
            for number, show in enumerate(file.show, 1):
                self._enter(show, functions, f"{path}, [[show]] number {number}")
        self._folded = {name.casefold(): formats for name, formats in self._formats.items()}

    def _read(self, path: Path) -> TableFile:
        try:
            data = path.read_bytes()
            file = msgspec.toml.decode(data, type=TableFile)
        except OSError as error:
            raise ConfigError("a table of templates cannot be read", where=str(path), fix=str(error)) from error
        except (msgspec.DecodeError, ValueError) as error:
            raise ConfigError(f"a table of templates is wrong: {error}", where=str(path), fix="see docs/wikitext.md") from error
        self.hashes[path.name if path in BUILT_IN else str(path)] = hashlib.sha256(data).hexdigest()
        return file

    def _enter(self, show: Show, lookups: Mapping[str, Callable[[str], str]], where: str) -> None:
        sources = [show.format] if isinstance(show.format, str) else show.format
        try:
            formats = [Format(source, lookups) for source in sources if source]
            keys = self.lookups[show.names_from] if show.names_from else {}
        except (ValueError, KeyError) as error:
            raise ConfigError(f"an entry is wrong: {error}", where=where, fix="see docs/wikitext.md") from error
        for key in keys:
            self._formats.setdefault(canonical(key), formats)
        for name in show.names:
            if "*" in name:
                pattern = re.escape(name).replace(r"\*", "(.*)")
                self._patterns.insert(0, (re.compile(pattern, re.I | re.S), formats))
            else:
                self._formats[canonical(name)] = formats

    def find(self, name: str) -> tuple[str, list[Format]] | None:
        """What `*` stands for in a canonical name, and its formats; None for an unknown template."""
        formats = self._formats.get(name, self._folded.get(name.casefold()))
        if formats is not None:
            return name, formats
        for pattern, formats in self._patterns:
            if match := pattern.fullmatch(name):
                return match[1].strip(), formats
        return None


def canonical(name: str) -> str:
    """A template's name as MediaWiki knows it: spaces for underscores, a capital first."""
    name = " ".join(name.replace("_", " ").split())
    return name[:1].upper() + name[1:]


def _getter(values: dict[str, str]) -> Callable[[str], str]:
    folded = {key.casefold(): value for key, value in values.items()}
    return lambda key: folded.get(key.casefold(), "")
