"""Expand templates, parser functions and variables (`{{…}}`) to the text that they show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.placeholders import DROPPED, LOST, PLACE
from jprep.corpus.readers.wikitext.templating.conditions import CONDITIONS, EDGE, SHOWN_EDGE, TextArguments
from jprep.corpus.readers.wikitext.templating.definitions import (
    INFOBOX,
    TITLE_KEY,
    WILDCARD_KEY,
    TemplateEntry,
    TemplateTable,
    canonical_name,
)

_PREFIX = re.compile(r"(?:(?:safesubst|subst|msg|msgnw|template|テンプレート)\s*:\s*)+", re.I)
_NO_TEXT = frozenset(("#tag", "#babel", "#coordinates", "#related", "#seo"))
"""Parser functions that show a note, a box or nothing."""

_COUNTERS = {LOST: "templates.unknown", PLACE: "templates.hidden", DROPPED: "templates.hidden"}
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
        name = name.lstrip(EDGE)
        if name[:1] == "#":
            self._tally["templates.functions"] += 1
            return _call(name, rest)  # which needs to see that a condition ends with a lost text
        name = name.rstrip(EDGE)
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
                    self._tally[_COUNTERS.get(shown, "templates.expanded")] += 1
                    return shown
        if self._show_infobox and formats is INFOBOX:
            return self._show_infobox(_arguments(rest.replace(PLACE, DROPPED)))
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


def _arguments(rest: str) -> dict[str, str]:
    """Return the arguments by number or name. One with nothing but unknown texts is `LOST`."""
    arguments: dict[str, str] = {}
    count = 0
    for part in rest.split("|"):
        key, equals, value = part.partition("=")
        if equals:
            arguments[key.strip()] = value.strip(SHOWN_EDGE)
        else:
            count += 1
            arguments[str(count)] = part.strip(SHOWN_EDGE)
    if LOST in rest:
        return {key: value if value.strip(EDGE) else value and LOST for key, value in arguments.items()}
    return arguments


def _call(name: str, rest: str) -> str:
    """Return what a parser function shows; `LOST` if it is not one of ours, or depends on a lost text."""
    function, _, first = name.partition(":")
    function = function.strip().lower()
    if select := CONDITIONS.get(function):
        return select(TextArguments(first, rest)) or DROPPED
    return DROPPED if function in _NO_TEXT else LOST
