"""Templates, parser functions and magic words: what a reader sees of `{{…}}`."""

from __future__ import annotations

import re
from collections.abc import Callable

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.marks import DROP
from jprep.corpus.readers.wikitext.table import Format, Table, canonical

_PREFIX = re.compile(r"\s*(?:(?:safesubst|subst|msg|msgnw|template|テンプレート)\s*:\s*)+", re.I)
_KEPT_SPACE = " \t\n" + DROP


class Templates:
    """Expands templates by a table; what is not in it is dropped, and counted.

    Args:
        table: what templates show.
        tally: where templates are counted, as `templates.expanded`, `.hidden` (known to show no text) and `.unknown`.
    """

    def __init__(self, table: Table, tally: Tally) -> None:
        self._table, self._tally = table, tally
        self._known: dict[str, tuple[str, list[Format]] | None] = {}
        self.title = ""

    def expand(self, content: str) -> str:
        """The text that `{{content}}` shows; the templates and links in it are expanded already."""
        name, pipe, rest = content.partition("|")
        name = name.replace(DROP, "").strip()
        if ":" in name or name.isupper():
            special = self._special(name, rest)
            if special is not None:
                return special
            if prefix := _PREFIX.match(name):
                name = name[prefix.end() :]
        entry = self._lookup(name)
        if entry is None:
            self._tally["templates.unknown"] += 1
            return DROP
        star, formats = entry
        shown = self._fill(formats, star, _arguments(rest) if pipe else {}) if formats else ""
        self._tally["templates.expanded" if shown else "templates.hidden"] += 1
        return shown or DROP

    def _lookup(self, name: str) -> tuple[str, list[Format]] | None:
        if name not in self._known:
            if len(self._known) > 20_000:  # a bound on memory: names repeat, but a dump has very many
                self._known.clear()
            self._known[name] = self._table.find(canonical(name))
        return self._known[name]

    def _fill(self, formats: list[Format], star: str, arguments: dict[str, str]) -> str:
        arguments["*"] = star
        return next((text for format in formats if (text := format.fill(arguments))), "")

    def _special(self, name: str, rest: str) -> str | None:
        """A magic word's or parser function's text; None where it is neither."""
        if name in _TITLES:
            return self.title
        head, colon, first = name.partition(":")
        function = _FUNCTIONS.get(head.strip().casefold()) if colon else None
        if function is not None:
            return function(first.strip(), *(part.strip(_KEPT_SPACE) for part in rest.split("|"))) or DROP
        if (colon and head[:1] == "#") or head in _SILENT or (head.startswith("CURRENT") or head.startswith("LOCAL")):
            self._tally["templates.hidden"] += 1
            return DROP
        return None


def _arguments(rest: str) -> dict[str, str]:
    arguments: dict[str, str] = {}
    count = 0
    for part in rest.split("|"):
        key, equals, value = part.partition("=")
        if equals:
            arguments[key.strip()] = value.strip(_KEPT_SPACE)
        else:
            count += 1
            arguments[str(count)] = part.strip(_KEPT_SPACE)
    return arguments


def _if(condition: str, then: str = "", otherwise: str = "", *_: str) -> str:
    return then if condition.strip(DROP) else otherwise


def _ifeq(left: str, right: str = "", then: str = "", otherwise: str = "", *_: str) -> str:
    return then if left == right else otherwise


def _switch(value: str, *cases: str) -> str:
    default, matched = "", False
    for case in cases:
        key, equals, shown = case.partition("=")
        matched = matched or key.strip() == value
        if matched and equals:
            return shown.strip()
        if key.strip() == "#default" or (not equals and case is cases[-1]):
            default = shown.strip() if equals else case.strip()
    return default


def _itself(text: str, *_: str) -> str:
    return text


_FUNCTIONS: dict[str, Callable[..., str]] = {
    "#if": _if,
    "#ifeq": _ifeq,
    "#switch": _switch,
    "formatnum": _itself,
    "lc": lambda text, *_: text.lower(),
    "uc": lambda text, *_: text.upper(),
    "lcfirst": lambda text, *_: text[:1].lower() + text[1:],
    "ucfirst": lambda text, *_: text[:1].upper() + text[1:],
}
_TITLES = frozenset(("PAGENAME", "FULLPAGENAME", "BASEPAGENAME", "SUBPAGENAME", "PAGENAMEE", "ARTICLEPAGENAME", "SUBJECTPAGENAME"))
_SILENT = frozenset(
    ["DEFAULTSORT", "デフォルトソート", "DEFAULTSORTKEY", "DEFAULTCATEGORYSORT", "DISPLAYTITLE", "表示名", "NAMESPACE", "SITENAME", "SERVER", "REVISIONID", "NUMBEROFARTICLES", "NUMBEROFPAGES", "NUMBEROFUSERS", "NUMBEROFFILES", "NUMBEROFEDITS", "NUMBEROFADMINS", "NUMBEROFACTIVEUSERS", "PAGESIZE", "PAGESINCATEGORY", "ns", "int", "fullurl", "localurl", "canonicalurl", "filepath", "anchorencode", "urlencode", "plural", "grammar", "gender", "padleft", "padright", "TALKPAGENAME", "SUBJECTSPACE", "TALKSPACE", "NAMESPACENUMBER", "PROTECTIONLEVEL", "REVISIONYEAR", "REVISIONUSER", "SHORTDESC"]
)
