"""Expand templates, parser functions and variables (`{{…}}`) to the text that they show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.placeholders import DROPPED, GONE, LINKED, LOST
from jprep.corpus.readers.wikitext.templating.definitions import (
    INFOBOX,
    TITLE_KEY,
    WILDCARD_KEY,
    TemplateEntry,
    TemplateTable,
    canonical_name,
)

_PREFIX = re.compile(r"(?:(?:safesubst|subst|msg|msgnw|template|テンプレート)\s*:\s*)+", re.I)
_EDGE = " \t\n" + GONE + LINKED
_NO_TEXT = frozenset(("#tag", "#babel", "#coordinates", "#related", "#seo"))
"""Parser functions that show a note, a box or nothing."""

_NOT_CACHED: TemplateEntry = ("", [])
_MAX_CACHED_NAMES = 20_000  # limits memory: names repeat, but a dump contains very many


class TemplateExpander:
    """Expands templates by a table. Unknown templates are counted and leave `LOST`.

    Args:
        table: what templates show.
        tally: receives the counts `templates.expanded`, `.hidden` (known to show no text) and `.unknown`.
        show_infobox: returns the text of an infobox with these arguments; None shows nothing.

    Attributes:
        title: title of the current page, set by the caller.
    """

    def __init__(
        self, table: TemplateTable, tally: Tally, show_infobox: Callable[[Mapping[str, str]], str] | None = None
    ) -> None:
        self._table, self._tally, self._show_infobox = table, tally, show_infobox
        self._cache: dict[str, TemplateEntry | None] = {}
        self.title = ""

    def expand(self, content: str) -> str:
        """Return the text that `{{content}}` shows. Templates and links in it must be resolved already."""
        name, _, rest = content.partition("|")
        name = name.lstrip(_EDGE)
        if name[:1] == "#":
            self._tally["templates.functions"] += 1
            return _call(name, rest)  # which needs to see that a condition ends with a lost text
        name = name.rstrip(_EDGE)
        entry = self._cache.get(name, _NOT_CACHED)
        if entry is _NOT_CACHED:
            entry = self._find(name)
        if entry is None:
            self._tally["templates.unknown"] += 1
            return LOST
        star, formats = entry
        if formats:
            arguments = _arguments(rest)
            arguments[WILDCARD_KEY], arguments[TITLE_KEY] = star, self.title
            for format in formats:
                if shown := format.fill(arguments):
                    self._tally["templates.expanded"] += 1
                    return shown
        if self._show_infobox and formats is INFOBOX:
            return self._show_infobox(_arguments(rest, _EDGE.replace(LOST, "")))
        self._tally["templates.hidden"] += 1
        return LOST if formats and LOST in content else DROPPED

    def _find(self, name: str) -> TemplateEntry | None:
        if prefix := _PREFIX.match(name):
            name = name[prefix.end() :]
        entry = self._table.find(canonical_name(name.replace(DROPPED, "").replace(LOST, "")))
        if ":" not in name:  # `DEFAULTSORT:…` is a different name on every page
            if len(self._cache) >= _MAX_CACHED_NAMES:
                self._cache.clear()
            self._cache[name] = entry
        return entry


def _arguments(rest: str, edge: str = _EDGE) -> dict[str, str]:
    arguments: dict[str, str] = {}
    count = 0
    for part in rest.split("|"):
        key, equals, value = part.partition("=")
        if equals:
            arguments[key.strip()] = value.strip(edge)
        else:
            count += 1
            arguments[str(count)] = part.strip(edge)
    return arguments


def _call(name: str, rest: str) -> str:
    """Return what a parser function shows; `LOST` if it is not one of ours, or depends on a lost text."""
    function, _, first = name.partition(":")
    function = function.strip().lower()
    if compute := _FUNCTIONS.get(function):
        branches = rest.split("|")
        if LOST in first or (function == "#ifeq" and LOST in branches[0]):
            return LOST
        return compute(first.strip(_EDGE), [part.strip(_EDGE) for part in branches]) or DROPPED
    return DROPPED if function in _NO_TEXT else LOST


def _if(condition: str, branches: list[str]) -> str:
    return branches[0] if condition else "".join(branches[1:2])


def _ifeq(left: str, branches: list[str]) -> str:
    return "".join(branches[1:2] if left == branches[0] else branches[2:3])


def _switch(value: str, cases: list[str]) -> str:
    matched = False
    for case in cases:
        key, equals, shown = case.partition("=")
        matched = matched or key.strip() in (value, "#default")
        if matched and equals:
            return shown.strip()
    return "" if "=" in cases[-1] else cases[-1]


_FUNCTIONS: dict[str, Callable[[str, list[str]], str]] = {"#if": _if, "#ifeq": _ifeq, "#switch": _switch}
