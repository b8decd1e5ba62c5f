"""The page that lists documents or rejects: a search form, hits, and links to other pages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from jprep.corpus.reasons import describe_reason
from jprep.corpus.store import Manifest
from jprep.html.text import shortened
from jprep.view.files import SIGNALS, CorpusFiles
from jprep.view.passage import Piece, highlighted
from jprep.view.query import CHARACTERS, KINDS, Kind, Query, Range, parse_query
from jprep.view.search import MAX_HITS, Found, Hit, Searches, read_hits

PAGE = 25
"""Hits on a page."""
_COUNTED = 1000  # hits that are counted; of more, only that there are more is said
_SECONDS = 4.0  # after which a search stops and offers to continue
_TITLE = 150  # characters of a title
_PATHS: Mapping[Kind, str] = {"documents": "/", "rejects": "/rejects"}


class Filter(NamedTuple):
    """A filter in the form: the limits of a number, or the value of a text."""

    name: str
    label: str
    limits: Range | None
    value: str


class HitList:
    """Makes the contexts of lists.

    Args:
        files: the files of the corpus.
        manifest: its manifest.
    """

    def __init__(self, files: CorpusFiles, manifest: Manifest) -> None:
        self._files, self._manifest = files, manifest
        self._searches = Searches(files)
        self._extra = files.extra_columns()

    def context(self, kind: Kind, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Return the values for the template of a page.

        Args:
            kind: what to list.
            parameters: those of the URL.

        Raises:
            ConfigError: a parameter is wrong.
            JprepError: a file cannot be read.
        """
        begun = time.monotonic()
        query = parse_query(kind, parameters, *self._filter_names(kind))
        number = min(_page_number(parameters), MAX_HITS // PAGE)
        start = (number - 1) * PAGE
        found = self._searches.of(query).page(start, start + PAGE, max(_COUNTED, start + PAGE) + 1, _SECONDS)
        hits = list(read_hits(self._files, query, found.positions))
        filters = self._filters(query)
        return {
            "kind": kind,
            "tabs": [(each, _PATHS[each], self._files.rows(each)) for each in KINDS],
            "query": query,
            "sources": [source["name"] for source in self._manifest.sources],
            "reasons": list(self._reasons()),
            "filters": [each for each in filters if not each.name.startswith(SIGNALS)],
            "signals": [each for each in filters if each.name.startswith(SIGNALS)],
            "signals_used": any(name.startswith(SIGNALS) for name in query.ranges),
            "hits": [(hit, self._link(hit, query, number), pieces_of(hit, query)) for hit in hits],
            "found": found,
            "count": _count(found, kind),
            "files": len(self._files.parts[kind]),
            "seconds": time.monotonic() - begun,
            "number": number,
            "start": start,
            "damaged": sorted({*found.damaged, *self._files.damage}),
            "action": _PATHS[kind],
            "hidden": parse_qsl(query.parameters()),
            **_paging(query, number, found),
        }

    def _reasons(self) -> Iterator[tuple[str, str, int]]:
        """Yield each reason, in words too, with the number of its rejects; the most frequent first."""
        for code, number in sorted(self._manifest.rejects.items(), key=lambda item: -item[1]):
            step, _, reason = code.rpartition("/")
            yield code, describe_reason(self._manifest.made_from, step, reason), number

    def _filter_names(self, kind: Kind) -> tuple[list[str], list[str]]:
        if kind == "rejects":
            return [], []
        return [CHARACTERS, *self._extra.numbers], self._extra.texts

    def _filters(self, query: Query) -> list[Filter]:
        numbers, texts = self._filter_names(query.kind)
        limits = [Filter(name, _label(name), query.ranges.get(name, Range()), "") for name in numbers]
        return limits + [Filter(name, _label(name), None, query.values.get(name, "")) for name in texts]

    def _link(self, hit: Hit, query: Query, number: int) -> str:
        parameters = query.parameters(page=number if number > 1 else "")
        return f"/{query.kind}/{hit.position.part}/{hit.position.row}" + (f"?{parameters}" if parameters else "")


def _label(column: str) -> str:
    """Return the name of a column or of a signal as a label."""
    name = column.removeprefix(SIGNALS)
    return name[:1].upper() + name[1:].replace("_", " ")


def pieces_of(hit: Hit, query: Query) -> dict[str, list[Piece]]:
    """Return the title and the excerpt of a hit in pieces, with the words that were searched for highlighted."""
    terms = query.terms
    title = shortened(hit.title, _TITLE)
    return {"title": list(highlighted(title, terms)), "excerpt": list(highlighted(hit.excerpt, terms))}


def list_address(kind: Kind, parameters: str) -> str:
    """Return the address of a list."""
    return _PATHS[kind] + (f"?{parameters}" if parameters else "")


def _page_number(parameters: Mapping[str, str]) -> int:
    text = parameters.get("page", "")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else 1


def _count(found: Found, kind: Kind) -> str:
    """Return the number of hits in words."""
    noun = {"documents": "document", "rejects": "rejected document"}[kind] + ("s" if found.total != 1 else "")
    if found.finished:
        return f"{found.total:,} {noun}"
    return f"more than {found.total - 1:,} {noun}" if found.total > _COUNTED else f"{found.total:,} {noun} so far"


def _paging(query: Query, number: int, found: Found) -> dict[str, Any]:
    """Return the links to other pages, "" where there is none, and the number of the last page if it is known."""

    def link(page: int) -> str:
        return list_address(query.kind, query.parameters(page=page if page > 1 else ""))

    last = max(1, -(-found.total // PAGE)) if found.finished else 0
    beyond = last and number > last
    more = found.total > number * PAGE and number < MAX_HITS // PAGE
    return {
        "previous": link(last if beyond else number - 1) if number > 1 else "",
        "previous_name": "Last page" if beyond else "Previous",
        "next": link(number + 1) if more else "",
        "again": link(number),
        "last": last,
        "max_page": MAX_HITS // PAGE,
    }
