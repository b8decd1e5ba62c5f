"""Find a template by its name: in the table, or among the pages of the dump."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from jprep.corpus.readers.wikitext.placeholders import DROPPED, LOST, remove_placeholders
from jprep.corpus.readers.wikitext.templating.definitions import TemplateTable, canonical_name
from jprep.corpus.readers.wikitext.transclusion.page_file import TemplatePages
from jprep.corpus.readers.wikitext.transclusion.syntax import Call, Element, Nodes, parse

_MODIFIER = re.compile(r"(?:(?:safesubst|subst|msgnw|msg|raw)\s*:\s*)+", re.I)
_TEMPLATE = 10
_MAX_REDIRECTS = 5
_MAX_NAMES = 20_000  # limits memory: names repeat, but a dump contains very many
_MAX_NAME = 255  # bytes of a page's name, as in MediaWiki
_MAX_CACHED = 32 << 20  # characters of parsed pages, with those of their nodes
_NODE = 200  # characters that need as much memory as the parts of a call, or of an argument


class Template(NamedTuple):
    """A template as a call finds it.

    Attributes:
        name: its canonical name, after redirects; the name of the call if it is not a page.
        body: what it shows, parsed on request; None if it is not a page.
        known: whether the table has it.
    """

    name: str
    body: BodyCache | None = None
    known: bool = False

    def nodes(self, count: Callable[[int], None]) -> Nodes:
        """Return the parsed page; see `BodyCache.nodes`."""
        return self.body.nodes(self.name, count) if self.body else []


class Resolver:
    """Finds templates. The table is asked first, for every name that redirects lead to.

    Args:
        table: what templates show.
        pages: the pages of the dump.
        namespaces: namespace numbers by lower-case name; see `all_namespaces`.
    """

    def __init__(self, table: TemplateTable, pages: TemplatePages, namespaces: Mapping[str, int]) -> None:
        self._numbers = {**namespaces, "": 0}
        self._table, self._pages, self._bodies = table, pages, BodyCache(pages)
        self._found: dict[str, Template] = {}

    def is_on_page(self, name: str | None) -> bool:
        """Return whether the call of a page has to be expanded here: a page of the dump, or a redirect."""
        if not name or name[0] == "#":
            return False
        found = self.find(name)
        return found.body is not None or (found.known and found.name != name)

    def has_page(self, title: str) -> bool:
        """Return whether the dump has a page of the template namespace with this title, also if it is a redirect."""
        prefix, _, name = title.partition("#")[0].strip().removeprefix(":").partition(":")
        if self._numbers.get(prefix.strip().lower()) != _TEMPLATE or len(name.encode()) > _MAX_NAME:
            return False
        return self._pages.target(canonical_name(name)) is not None

    def find(self, name: str) -> Template:
        """Return the template with this name."""
        if len(name) > _MAX_NAME:  # a page can have megabytes before a `|`
            return self._find(name)
        found = self._found.get(name)
        if found is None:
            if len(self._found) >= _MAX_NAMES:
                self._found.clear()
            found = self._found[name] = self._find(name)
        return found

    def _find(self, called: str) -> Template:
        name = self._key(called)
        if not name or self._in_table(name):
            return Template(called, known=bool(name))
        if len(name.encode()) > _MAX_NAME:
            return Template(called)
        for _ in range(_MAX_REDIRECTS):
            if (target := self._pages.target(name)) is None:
                break
            if not target:
                return Template(name, self._bodies)
            name = target
            if self._in_table(name):
                return Template(name, known=True)
        return Template(called)

    def _key(self, name: str) -> str:
        """Return the canonical name of a template, without its section; "" for a page of another namespace."""
        name = name.replace(DROPPED, "").replace(LOST, "")
        if name[:1] == "#":
            return name
        prefix, colon, rest = name.partition(":")
        number = self._numbers.get(prefix.strip().lower()) if colon else None
        if number is not None and number != _TEMPLATE and not self._in_table(canonical_name(name)):
            return ""
        return canonical_name((rest if number == _TEMPLATE else name).partition("#")[0])

    def _in_table(self, name: str) -> bool:
        return self._table.find(name) is not None


class _Body(NamedTuple):
    nodes: Nodes
    length: int
    memory: int


class BodyCache:
    """The parsed pages of templates, those used last.

    Args:
        pages: the pages of the dump.
    """

    def __init__(self, pages: TemplatePages) -> None:
        self._pages = pages
        self._parsed: OrderedDict[str, _Body] = OrderedDict()
        self._size = 0

    def nodes(self, name: str, count: Callable[[int], None]) -> Nodes:
        """Return the parsed page of a template.

        Args:
            name: canonical name of the template.
            count: receives the length of the page, cached or not, before it is parsed; may raise an error.
        """
        body = self._parsed.get(name)
        if body is None:
            text = remove_placeholders(self._pages.text(name))
            count(len(text))
            body = _Body(parse(text), len(text), len(text) + _NODE * (text.count("{{") + text.count("|")))
            self._keep(name, body)
        else:
            count(body.length)
            self._parsed.move_to_end(name)
        return body.nodes

    def _keep(self, name: str, body: _Body) -> None:
        self._parsed[name] = body
        self._size += body.memory
        while self._size > _MAX_CACHED and len(self._parsed) > 1:
            self._size -= self._parsed.popitem(last=False)[1].memory


def without_prefix(name: str) -> str:
    """Return the name of a call without `subst:` and similar words, which only matter when a page is saved."""
    return name[found.end() :] if (found := _MODIFIER.match(name)) else name


def static_name(call: Call) -> str | None:
    """Return the name that a call begins with, or None if it has to be computed."""
    parts = list[str]()
    for node in call.name:
        if isinstance(node, Element) and node.name == "!--":
            continue
        if not isinstance(node, str):
            return None
        parts.append(node)
    return without_prefix("".join(parts).strip())
