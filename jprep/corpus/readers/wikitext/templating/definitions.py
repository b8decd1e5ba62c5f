"""Template tables: load from TOML files what templates show."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from operator import itemgetter
from pathlib import Path

import msgspec

from jprep.corpus.readers.wikitext.placeholders import DROPPED, LOST, PLACE
from jprep.corpus.readers.wikitext.templating.dates import day_number, month_number, whole_date, year_number
from jprep.corpus.readers.wikitext.templating.eras import format_year_with_era
from jprep.corpus.readers.wikitext.templating.formats import Lookup, TemplateFormat
from jprep.corpus.readers.wikitext.templating.quantities import plain_number, unit_symbol
from jprep.errors import ConfigError

BUILTIN_FILES = (Path(__file__).parent / "templates.toml", Path(__file__).parent / "names.toml")

INFOBOX_FILE = Path(__file__).parent / "infoboxes.toml"

WILDCARD_KEY = "*"
"""Key of the text that `*` in the name of a template matched."""

TITLE_KEY = "@title"
"""Key of the title of the page."""

TemplateEntry = tuple[str, list[TemplateFormat]]
"""The text matched by `*` in the name of a template, and its formats. The first format with a result is used."""


class TemplateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a table: what the templates with these names show.

    Attributes:
        format: a format, or several, of which the first one with a result is used; "" shows nothing.
        names: names of the templates. Case is ignored unless two names differ in it only, and always for the first
            letter. `*` matches any text.
        names_from: name of a lookup whose keys are further names.
    """

    format: str | list[str]
    names: list[str] = []
    names_from: str = ""


class InfoboxRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What infoboxes show, if they are kept.

    Attributes:
        names: names of infoboxes, as in `TemplateRule`. Without the option they are known and show nothing.
        hidden: parts of the names of parameters that are left out.
        pairs: endings of the names of parameters: the value of the first is the name of the second.
        labels: what to show as the name of a parameter, by its name; "" leaves it out.
    """

    names: list[str] = []
    hidden: list[str] = []
    pairs: dict[str, str] = {}
    labels: dict[str, str] = {}


class TemplateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table file.

    Attributes:
        show: what templates show.
        lookup: values by key, for use in formats, e.g. languages by code.
        labels: words that are removed if the text after their colon was dropped.
        disambiguation: names and redirects of the templates that mark disambiguation pages; they show nothing.
        infobox: names of infoboxes and their parameters.
    """

    show: list[TemplateRule] = []
    lookup: dict[str, dict[str, str]] = {}
    labels: list[str] = []
    disambiguation: list[str] = []
    infobox: InfoboxRules = InfoboxRules()


_EXACT = frozenset(("unit",))
"""Lookups whose keys keep their case: mW is not MW."""

INFOBOX: list[TemplateFormat] = []
"""The formats of infoboxes."""

_COMPUTED: Mapping[str, Lookup] = {
    "era": format_year_with_era,
    "date": whole_date,
    "year": year_number,
    "month": month_number,
    "day": day_number,
    "number": plain_number,
    "symbol": unit_symbol,
    "unknown": lambda _: LOST,
    "coordinates": lambda _: PLACE,
    "in title": lambda display: DROPPED if display in ("title", "t") else "",
}
"""Lookups without a list. `unknown` makes a template with this argument one whose text is unknown, `coordinates` one
whose text is missing only in a sentence that cannot do without it. `in title` is nothing for other ways of display."""


class TemplateTable:
    """What templates show, by their names.

    Args:
        paths: further table files. A later entry replaces an earlier one of the same name.
        infoboxes: whether to read the built-in list of infoboxes.

    Attributes:
        hashes: SHA-256 of every file, by its name or path.
        lookups: the lookups, by name.
        labels: words that are removed if the text after their colon was dropped.
        disambiguation: names of the templates that mark disambiguation pages.
        infobox: the rules for infoboxes of all files.

    Raises:
        ConfigError: a file cannot be read, or an entry is invalid.
    """

    def __init__(self, paths: Iterable[str] = (), *, infoboxes: bool = False) -> None:
        self.hashes: dict[str, str] = {}
        self.lookups: dict[str, dict[str, str]] = {}
        self.labels: set[str] = set()
        self.disambiguation: set[str] = set()
        self._formats: dict[str, list[TemplateFormat]] = {}
        self._patterns: list[tuple[int, re.Pattern[str], list[TemplateFormat]]] = []
        self.infobox = InfoboxRules()
        builtin = (*BUILTIN_FILES, INFOBOX_FILE) if infoboxes else BUILTIN_FILES
        files = [(path, self._read(path)) for path in (*builtin, *map(Path, paths))]
        for _, file in files:
            self.labels.update(file.labels)
            self.disambiguation.update(file.disambiguation)
            for name, values in file.lookup.items():
                self.lookups.setdefault(name, {}).update(values)
        lookups = {**{name: _lookup(name, values) for name, values in self.lookups.items()}, **_COMPUTED}
        self._formats.update((canonical_name(name), []) for name in self.disambiguation)
        for path, file in files:
            earlier, self._patterns = self._patterns, []  # longer names come first: `lang-*` matches `lang-*-short`
            for number, show in enumerate(file.show, 1):
                self._enter(show, lookups, f"{path}, [[show]] number {number}")
            self._enter_infoboxes(file.infobox)
            self._patterns = sorted(self._patterns, key=itemgetter(0), reverse=True) + earlier
        self._folded = {name.casefold(): formats for name, formats in self._formats.items()}

    def find(self, name: str) -> TemplateEntry | None:
        """Return the entry of a template by its canonical name, or None for an unknown template."""
        formats = self._formats.get(name, self._folded.get(name.casefold()))
        if formats is not None:
            return name, formats
        head, colon, rest = name.partition(":")
        if colon and (formats := self._folded.get(f"{head.casefold()}:*")) is not None:
            return rest.strip(), formats
        for _, pattern, formats in self._patterns:
            if match := pattern.fullmatch(name):
                return match[1].strip(), formats
        return None

    def _read(self, path: Path) -> TemplateFile:
        try:
            data = path.read_bytes()
            file = msgspec.toml.decode(data, type=TemplateFile)
        except OSError as error:
            what = f"cannot read the template table: {error.strerror}"
            raise ConfigError(what, where=str(path), fix="correct the path in the option `templates`") from error
        except (msgspec.DecodeError, ValueError) as error:
            raise ConfigError(f"invalid template table: {error}", where=str(path), fix=_SEE) from error
        self.hashes[path.name if path in (*BUILTIN_FILES, INFOBOX_FILE) else str(path)] = hashlib.sha256(
            data
        ).hexdigest()
        return file

    def _enter(self, show: TemplateRule, lookups: Mapping[str, Lookup], where: str) -> None:
        sources = [show.format] if isinstance(show.format, str) else show.format
        try:
            formats = [TemplateFormat(source, lookups) for source in sources if source]
            names = [*show.names, *(self.lookups[show.names_from] if show.names_from else ())]
        except (ValueError, KeyError) as error:
            raise ConfigError(f"invalid entry: {error}", where=where, fix=_SEE) from error
        self._enter_names(names, formats)

    def _enter_infoboxes(self, rules: InfoboxRules) -> None:
        self._enter_names(rules.names, INFOBOX)
        labels, pairs = self.infobox.labels | rules.labels, self.infobox.pairs | rules.pairs
        hidden = [*self.infobox.hidden, *rules.hidden]
        self.infobox = InfoboxRules(hidden=hidden, pairs=pairs, labels=labels)

    def _enter_names(self, names: Iterable[str], formats: list[TemplateFormat]) -> None:
        for name in names:
            if "*" in name and not name.endswith(":*"):
                pattern = re.escape(name).replace(r"\*", "(.*)", 1)
                self._patterns.insert(0, (len(name), re.compile(pattern, re.I | re.S), formats))
            else:
                self._formats[canonical_name(name)] = formats


@cache
def load_template_table(paths: tuple[str, ...], *, infoboxes: bool = False) -> TemplateTable:
    """Return the table of these files, read once per process; see `TemplateTable`."""
    return TemplateTable(paths, infoboxes=infoboxes)


_SEE = "see docs/wikitext.md for the format"


def canonical_name(name: str) -> str:
    """Return the name of a template as MediaWiki normalizes it: spaces for underscores, first letter in upper case."""
    name = " ".join(name.replace("_", " ").split())
    return name[:1].upper() + name[1:]


def _lookup(name: str, values: Mapping[str, str]) -> Lookup:
    if name in _EXACT:
        return lambda key: values.get(key, "")
    folded = {key.casefold(): value for key, value in values.items()}
    return lambda key: folded.get(key.casefold(), "")
