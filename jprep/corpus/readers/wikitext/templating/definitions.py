"""The table of templates: which names show what, loaded from TOML files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from jprep.corpus.readers.wikitext.templating.eras import format_year_with_era
from jprep.corpus.readers.wikitext.templating.formats import Lookup, TemplateFormat
from jprep.errors import ConfigError

BUILTIN_FILES = (Path(__file__).parent / "templates.toml", Path(__file__).parent / "names.toml")

WILDCARD_KEY = "*"
"""The key of what `*` in a template's name stands for."""

TITLE_KEY = "@title"
"""The key of the page's title."""

TemplateEntry = tuple[str, list[TemplateFormat]]
"""What `*` stands for in a template's name, and its formats, the first of which that gives anything is shown."""


class TemplateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class TemplateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole table file.

    Attributes:
        show: what templates show, one entry after another.
        lookup: lists of values by key, for formats to look up, e.g. languages by code.
        labels: words that announce what follows a colon, and go where that was dropped.
        disambiguation: names and redirects of the templates that mark disambiguation pages; they show nothing.
    """

    show: list[TemplateRule] = []
    lookup: dict[str, dict[str, str]] = {}
    labels: list[str] = []
    disambiguation: list[str] = []


class TemplateTable:
    """What templates show, by their names.

    Args:
        paths: further table files; a later entry takes the place of an earlier one of the same name.

    Attributes:
        hashes: the SHA-256 of every file, by its name or path.
        lookups: the lists of values, by name.
        labels: the words that announce something.
        disambiguation: the templates that mark disambiguation pages.

    Raises:
        ConfigError: a file cannot be read, or an entry of it is wrong.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.hashes: dict[str, str] = {}
        self.lookups: dict[str, dict[str, str]] = {}
        self.labels: set[str] = set()
        self.disambiguation: set[str] = set()
        self._formats: dict[str, list[TemplateFormat]] = {}
        self._patterns: list[tuple[re.Pattern[str], list[TemplateFormat]]] = []
        files = [(path, self._read(path)) for path in (*BUILTIN_FILES, *map(Path, paths))]
        for _, file in files:
            self.labels.update(file.labels)
            self.disambiguation.update(file.disambiguation)
            for name, values in file.lookup.items():
                self.lookups.setdefault(name, {}).update(values)
        lookups = {name: _lookup(values) for name, values in self.lookups.items()} | {"era": format_year_with_era}
        self._formats.update((canonical_name(name), []) for name in self.disambiguation)
        for path, file in files:
            for number, show in enumerate(file.show, 1):
                self._enter(show, lookups, f"{path}, [[show]] number {number}")
        self._folded = {name.casefold(): formats for name, formats in self._formats.items()}

    def find(self, name: str) -> TemplateEntry | None:
        """The entry of a template's canonical name; None for an unknown template."""
        formats = self._formats.get(name, self._folded.get(name.casefold()))
        if formats is not None:
            return name, formats
        head, colon, rest = name.partition(":")
        if colon and (formats := self._folded.get(f"{head.casefold()}:*")) is not None:
            return rest.strip(), formats
        for pattern, formats in self._patterns:
            if match := pattern.fullmatch(name):
                return match[1].strip(), formats
        return None

    def _read(self, path: Path) -> TemplateFile:
        try:
            data = path.read_bytes()
            file = msgspec.toml.decode(data, type=TemplateFile)
        except OSError as error:
            raise ConfigError("a table of templates cannot be read", where=str(path), fix=str(error)) from error
        except (msgspec.DecodeError, ValueError) as error:
            raise ConfigError(f"a table of templates is wrong: {error}", where=str(path), fix=_SEE) from error
        self.hashes[path.name if path in BUILTIN_FILES else str(path)] = hashlib.sha256(data).hexdigest()
        return file

    def _enter(self, show: TemplateRule, lookups: Mapping[str, Lookup], where: str) -> None:
        sources = [show.format] if isinstance(show.format, str) else show.format
        try:
            formats = [TemplateFormat(source, lookups) for source in sources if source]
            names = [*show.names, *(self.lookups[show.names_from] if show.names_from else ())]
        except (ValueError, KeyError) as error:
            raise ConfigError(f"an entry is wrong: {error}", where=where, fix=_SEE) from error
        for name in names:
            if "*" in name and not name.endswith(":*"):
                pattern = re.escape(name).replace(r"\*", "(.*)", 1)
                self._patterns.insert(0, (re.compile(pattern, re.I | re.S), formats))
            else:
                self._formats[canonical_name(name)] = formats


@cache
def load_template_table(paths: tuple[str, ...]) -> TemplateTable:
    """The table of these files, read once in a process; see `Table`."""
    return TemplateTable(paths)


_SEE = "docs/wikitext.md says how a table is written"


def canonical_name(name: str) -> str:
    """A template's name as MediaWiki knows it: spaces for underscores, a capital first."""
    name = " ".join(name.replace("_", " ").split())
    return name[:1].upper() + name[1:]


def _lookup(values: Mapping[str, str]) -> Lookup:
    folded = {key.casefold(): value for key, value in values.items()}
    return lambda key: folded.get(key.casefold(), "")
