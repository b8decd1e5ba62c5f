"""Find the rows that match a query, file by file, no more than are asked for."""

from __future__ import annotations

import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from jprep.errors import DamagedError, MachineError
from jprep.view.files import SIGNALS, CorpusFiles, column_sql
from jprep.view.query import CHARACTERS, Query, Range

MAX_HITS = 1_000_000
"""Hits of a search that can be paged through, about 8 MB."""

_SEARCHES = 16  # searches whose hits are kept
_BEFORE = 30  # characters of an excerpt before the first hit
_EXCERPT = 180


class Position(NamedTuple):
    """Where a document or a reject is: the number of its file, and its row there, both from 0."""

    part: int
    row: int


class Condition(NamedTuple):
    """A condition in SQL with the values of its `?`."""

    sql: str
    values: list[Any]


class Found(NamedTuple):
    """A page of hits.

    Attributes:
        positions: where they are.
        total: number of hits found so far.
        finished: whether that is all of them.
        searched: number of files searched so far.
        damaged: paths of the files that could not be searched.
    """

    positions: list[Position]
    total: int
    finished: bool
    searched: int
    damaged: list[str]


class Search:
    """The hits of a query. They are found when they are asked for, and kept.

    Args:
        files: the files of the corpus.
        query: what to find.
    """

    def __init__(self, files: CorpusFiles, query: Query) -> None:
        self._files, self._query = files, query
        self._condition = condition(query)
        self._parts, self._rows = array("L"), array("L")
        self._next = Position(0, 0)
        self._damaged: list[str] = []
        self._lock = threading.Lock()

    def page(self, start: int, stop: int, count: int, seconds: float) -> Found:
        """Return the hits from `start` to before `stop`.

        Args:
            start: number of the first hit, from 0.
            stop: number after the last.
            count: how many hits to find, if there are as many, so that they are counted.
            seconds: time after which the search stops; the next call continues. One file is searched in any case.
        """
        with self._lock:
            self._extend(min(max(stop, count), MAX_HITS), time.monotonic() + seconds)
            pairs = zip(self._parts[start:stop], self._rows[start:stop], strict=True)
            damaged = list(dict.fromkeys(self._damaged))
            return Found([Position(*pair) for pair in pairs], len(self._rows), self._finished, self._next.part, damaged)

    @property
    def _finished(self) -> bool:
        return self._next.part >= len(self._files.parts[self._query.kind])

    def _extend(self, count: int, deadline: float) -> None:
        while not self._finished and len(self._rows) < count:
            self._scan(count - len(self._rows))
            if time.monotonic() > deadline:
                return

    def _scan(self, missing: int) -> None:
        """Search the rest of the next file for some hits."""
        part, first = self._next
        where = f"{self._condition.sql} AND file_row_number >= ? LIMIT ?"
        values = [*self._condition.values, first, missing]
        try:
            found = self._files.select(self._query.kind, part, "file_row_number", where, values)
        except (DamagedError, MachineError):
            self._damaged.append(self._files.part(self._query.kind, part).path)
            found = []
        self._rows.extend(row["file_row_number"] for row in found)
        self._parts.extend([part] * len(found))
        self._next = Position(part, self._rows[-1] + 1) if len(found) == missing else Position(part + 1, 0)


class EveryRow:
    """All documents or rejects, for a query without conditions: nothing has to be searched."""

    def __init__(self, files: CorpusFiles, query: Query) -> None:
        self._files, self._kind = files, query.kind

    def page(self, start: int, stop: int, count: int, seconds: float) -> Found:
        """See `Search.page`."""
        parts, total = self._files.parts[self._kind], self._files.rows(self._kind)
        positions, before = list[Position](), 0
        for number, part in enumerate(parts):
            rows = range(max(start - before, 0), min(stop - before, part.rows))
            positions += [Position(number, row) for row in rows]
            before += part.rows
        damaged = sorted({parts[each.part].path for each in positions} & self._files.damage.keys())
        return Found(positions, total, True, len(parts), damaged)


class Searches:
    """The last searches, so that the next page of one need not search again."""

    def __init__(self, files: CorpusFiles) -> None:
        self._files = files
        self._kept: OrderedDict[str, Search | EveryRow] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, query: Query) -> Search | EveryRow:
        """Return the search for a query, new or kept."""
        with self._lock:
            if query.key not in self._kept:
                kind = Search if query.has_conditions else EveryRow
                self._kept[query.key] = kind(self._files, query)
            self._kept.move_to_end(query.key)
            while len(self._kept) > _SEARCHES:
                self._kept.popitem(last=False)
            return self._kept[query.key]


def condition(query: Query) -> Condition:
    """Return a query as a condition in SQL. Words are compared exactly: upper case is not lower case."""
    body = "text" if query.kind == "documents" else "excerpt"
    made = [Condition(f"(contains({body}, ?) OR contains(title, ?))", [term, term]) for term in query.terms]
    if query.id:
        made.append(Condition("(id = ? OR substr(id, strpos(id, ':') + 1) = ?)", [query.id, query.id]))
    if query.source:
        made.append(Condition("source = ?", [query.source]))
    if query.reason:
        step, _, reason = query.reason.rpartition("/")
        made.append(Condition("(step = ? AND reason = ?)", [step, reason]))
    for name, limits in query.ranges.items():
        number = (f"length({body})") if name == CHARACTERS else column_sql(name)
        made += [Condition(f"{number} {sign} ?", [_limit(name, limit)]) for sign, limit in _signed(limits)]
    made += [Condition(f"{column_sql(name)}::VARCHAR = ?", [value]) for name, value in query.values.items()]
    values = [value for each in made for value in each.values]
    return Condition(" AND ".join(each.sql for each in made) or "true", values)


def _signed(limits: Range) -> Iterator[tuple[str, float]]:
    """Yield the limits of a range that are given, each with how a value is compared with it."""
    for sign, limit in ((">=", limits.low), ("<=", limits.high)):
        if limit is not None:
            yield sign, limit


def _limit(name: str, limit: float) -> float:
    """Return a limit as the column has it: signals are stored as 32-bit numbers, and 0.2 is more than 0.2 in 64."""
    if not name.startswith(SIGNALS):
        return limit
    import numpy as np

    with np.errstate(over="ignore"):  # a limit beyond 32 bits is infinite
        return float(np.float32(limit))


class Hit(NamedTuple):
    """A row as a list of hits shows it.

    Attributes:
        position: where it is.
        id: its id.
        title: its title.
        about: source of a document, or `step/reason` of a reject.
        characters: characters of a document's text; 0 for a reject.
        excerpt: a part of its text.
        cut: whether characters before the excerpt are left out.
    """

    position: Position
    id: str
    title: str
    about: str
    characters: int
    excerpt: str
    cut: bool


def read_hits(files: CorpusFiles, query: Query, positions: list[Position]) -> Iterator[Hit]:
    """Yield the rows at some positions, which are sorted; those in damaged files are left out."""
    for part, group in groupby(positions, key=lambda position: position.part):
        rows = [position.row for position in group]
        try:
            yield from _read_part(files, query, part, rows)
        except (DamagedError, MachineError):
            continue


def _read_part(files: CorpusFiles, query: Query, part: int, rows: list[int]) -> Iterator[Hit]:
    body, about, size = ("text", "source", "length(text)")
    if query.kind == "rejects":
        body, about, size = ("excerpt", "step || '/' || reason", "0")
    first = f"greatest(1, strpos({body}, ?) - {_BEFORE})" if query.terms else "1"
    terms = query.terms[:1]
    columns = (
        f"file_row_number AS row, substr(id, 1, 1000) AS id, substr(title, 1, 1000) AS title, {about} AS about,"
        f" {size} AS size, {first} AS first, substr({body}, {first}, {_EXCERPT}) AS excerpt"
    )
    where = f"file_row_number IN ({', '.join('?' * len(rows))})"
    for row in files.select(query.kind, part, columns, where, [*terms, *terms, *rows]):
        cut = row["first"] > 1
        yield Hit(Position(part, row["row"]), row["id"], row["title"], row["about"], row["size"], row["excerpt"], cut)
