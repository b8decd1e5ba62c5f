"""The page of a document: its way from the input to tokens, one passage at a time."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from jprep.corpus.decontamination.findings import read_found_items
from jprep.corpus.document import SENTENCE, WORD, Document, Reject
from jprep.corpus.originals import LIMIT, Original, Originals, Unavailable
from jprep.corpus.reasons import describe_reason
from jprep.corpus.store import Manifest
from jprep.errors import ConfigError, JprepError
from jprep.view.changes import MAX_LINE, changed_lines
from jprep.view.files import CorpusFiles
from jprep.view.hit_list import list_address
from jprep.view.passage import Passage, choose_passage, highlighted, paragraphs, words_between
from jprep.view.query import Kind, split_terms
from jprep.view.tokens import TokenizerView

_OWN = ("passage", "record", "original")
"""Parameters of this page; the others belong to the list that it was opened from."""
_SMALL_INPUTS = 16 << 20
"""Bytes of all inputs up to which a page reads the original without being asked to."""


class NotFoundError(ConfigError):
    """The corpus has no such document."""


class Way(NamedTuple):
    """Where a document comes from.

    Attributes:
        original: its way from the input, if that could be read.
        problem: why it could not, or "".
        fix: what to do about that, or "".
    """

    original: Original | None = None
    problem: str = ""
    fix: str = ""


class DocumentPage:
    """Makes the contexts of documents and rejects.

    Args:
        files: the files of the corpus.
        manifest: its manifest.
        tokenizer: cuts texts into tokens; None shows no tokens.
        originals: reads the inputs again.
    """

    def __init__(
        self, files: CorpusFiles, manifest: Manifest, tokenizer: TokenizerView | None, originals: Originals
    ) -> None:
        self._files, self._manifest, self._tokenizer, self._originals = files, manifest, tokenizer, originals
        sizes = [file.get("size", 0) for source in manifest.sources for file in source["files"]]
        self._last: tuple[object, Way] = (None, Way())  # for the next passage of the same document
        self._reads_at_once = sum(sizes) <= _SMALL_INPUTS

    def document(self, part: int, row: int, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Return the values for the template of a document.

        Args:
            part: number of the file.
            row: row in the file, from 0.
            parameters: those of the URL.

        Raises:
            NotFoundError: there is no such document.
            JprepError: it cannot be read.
        """
        found, place = self._read("documents", part, row, parameters)
        terms = split_terms(parameters.get("q", ""))
        text = found["text"]
        passage = choose_passage(text, _number(parameters, "passage"), terms)
        shown, words = text[passage.start : passage.end], words_between(found["words"], passage.start, passage.end)
        way = self._way(place, found["id"], parameters, passage.end)
        tokens, token_problem = self._tokens(words or shown)
        meta = [(each["key"], each["value"]) if isinstance(each, dict) else each for each in _pairs(found["meta"])]
        extra = [(name, value) for name, value in found.items() if _is_extra(name) and value is not None]
        measured = [
            (name, f"{value:.4g}") for name, value in (found.get("signals") or {}).items() if not math.isnan(value)
        ]
        return place | {
            "id": found["id"],
            "title": found["title"],
            "address": web_address(found["url"]),
            "facts": [("source", found["source"]), ("url", found["url"]), *meta, *extra],
            "signals": measured,
            "figures": _figures(text, found["words"]),
            "terms": terms,
            "passage": passage,
            "lines": [list(highlighted(line, terms)) for line in shown.split("\n")],
            "changes": self._changes(way, text, passage),
            "test_items": self._test_items.get(found["id"], []),
            "paragraphs": paragraphs(words),
            "has_words": WORD in found["words"],
            "tokens": tokens,
            "token_count": sum(len(token.ids) for paragraph in tokens or [] for token in paragraph),
            "token_problem": token_problem,
            "tokenizer": self._tokenizer,
            "way": way,
            "record": _record(way, parameters),
            "max_line": MAX_LINE,
        }

    def reject(self, part: int, row: int, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Return the values for the template of a reject. See `document`."""
        found, place = self._read("rejects", part, row, parameters)
        way = self._way(place, found["id"], parameters, 0)
        text = _final_text(way)
        terms = split_terms(parameters.get("q", ""))
        passage = choose_passage(text, _number(parameters, "passage"), terms)
        return place | {
            "id": found["id"],
            "title": found["title"],
            "address": "",
            "facts": [
                ("step", found["step"]),
                ("reason", describe_reason(self._manifest.made_from, found["step"], found["reason"])),
            ],
            "excerpt": found["excerpt"],
            "terms": terms,
            "passage": passage,
            "changes": self._changes(way, text, passage) if text else [],
            "test_items": self._test_items.get(found["id"], []),
            "way": way,
            "record": _record(way, parameters),
            "max_line": MAX_LINE,
        }

    def _read(
        self, kind: Kind, part: int, row: int, parameters: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a row, and what its page says of its place."""
        if not 0 <= part < len(self._files.parts[kind]):
            raise NotFoundError("this corpus has no such document")
        rows = self._files.select(kind, part, "*", "file_row_number = ?", [row])
        if not rows:
            raise NotFoundError("this corpus has no such document")
        file = self._files.part(kind, part)
        own = {name: parameters[name] for name in _OWN if name in parameters}
        outer = urlencode({name: value for name, value in parameters.items() if name not in _OWN})
        place = {
            "kind": kind,
            "path": f"/{kind}/{part}/{row}",
            "file": file.path,
            "row": row,
            "back": list_address(kind, outer),
            "link": _Link(f"/{kind}/{part}/{row}", outer, own),
            "previous": self._beside(kind, part, row - 1, outer),
            "next": self._beside(kind, part, row + 1, outer),
        }
        return rows[0], place

    @cached_property
    def _test_items(self) -> dict[str, list[str]]:
        """Ids of the items of test sets that decontamination found in each document; none if a list is damaged."""
        items = defaultdict[str, list[str]](list)
        for file in self._manifest.test_items:
            with contextlib.suppress(JprepError):
                for item in read_found_items(self._files.folder, file):
                    for document in item.documents:
                        items[document].append(item.item)
        return dict(items)

    def _beside(self, kind: Kind, part: int, row: int, outer: str) -> str:
        """Return the address of a row, which can be that before the first or after the last of a file; "" for none."""
        parts = self._files.parts[kind]
        while row < 0 or row >= parts[part].rows:
            step = -1 if row < 0 else 1
            if not 0 <= part + step < len(parts):
                return ""
            part += step
            row = parts[part].rows - 1 if step < 0 else 0
        return f"/{kind}/{part}/{row}" + (f"?{outer}" if outer else "")

    def _way(self, place: Mapping[str, Any], identity: str, parameters: Mapping[str, str], end: int) -> Way | None:
        """Return the trace of a document from its input; None if it is not read unasked."""
        if parameters.get("original", "1" if self._reads_at_once else "") != "1":
            return None
        key = (place["file"], identity, max(LIMIT, 4 * end))
        last, way = self._last
        if last != key:
            way = self._read_way(*key)
            self._last = key, way
        return way

    def _read_way(self, file: str, identity: str, limit: int) -> Way:
        try:
            found = self._originals.find([identity], {identity: file}, limit)[identity]
        except JprepError as error:
            return Way(problem=error.what, fix=error.fix)
        if isinstance(found, Unavailable):
            return Way(problem=found.what, fix=found.fix)
        return Way(found, found.problem)

    def _changes(self, way: Way | None, text: str, passage: Passage) -> Any:
        """Return the lines of a passage with their changes; None if they are not known."""
        if way is None or way.original is None or not way.original.normalized:
            return None
        first, last = text.count("\n", 0, passage.start), text.count("\n", 0, passage.end)
        last += not text.endswith("\n", 0, passage.end)
        return changed_lines(way.original.read_text, way.original.normalized[-1][1], text, first, last)

    def _tokens(self, words: str) -> tuple[Any, str]:
        """Return the tokens of a passage, or why there are none."""
        if self._tokenizer is None:
            return None, ""
        try:
            return self._tokenizer.tokens(words), ""
        except JprepError as error:
            return None, f"{error.what}{f'; {error.fix}' if error.fix else ''}"


def _final_text(way: Way | None) -> str:
    """Return the text of a reject after the steps that saw it."""
    original = way.original if way else None
    if original is None or not original.normalized:
        return ""
    return original.text or "\n".join(line for line in original.normalized[-1][1].split("\n") if line.strip())


class _Link:
    """Makes the addresses of the same document with other parameters."""

    def __init__(self, path: str, outer: str, own: Mapping[str, str]) -> None:
        self._path, self._outer, self._own = path, outer, own

    def __call__(self, **changed: object) -> str:
        own = urlencode(dict(self._own) | changed)
        return f"{self._path}?{'&'.join(filter(None, [self._outer, own]))}"


def web_address(url: str) -> str:
    """Return an address if it is one of the web, so that a link cannot run a script; else ""."""
    try:
        return url if urlsplit(url).scheme in ("http", "https") and url.isprintable() else ""
    except ValueError:
        return ""


def _figures(text: str, words: str) -> dict[str, int]:
    lines = text.count("\n") + 1 if text else 0
    figures = {"characters": len(text), "paragraphs": lines, "sentences": lines + words.count(SENTENCE)}
    if WORD in words:
        figures["words"] = figures["sentences"] + words.count(WORD)
    return figures


def _record(way: Way | None, parameters: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a passage of the record as it stands in the input."""
    if way is None or way.original is None:
        return None
    record = way.original.original
    passage = choose_passage(record, _number(parameters, "record") or 0, [])
    cut = way.original.original_chars - len(record)
    return {"text": record[passage.start : passage.end], "passage": passage, "cut": cut}


def _number(parameters: Mapping[str, str], name: str) -> int | None:
    """Return the number of a passage, from 0; in the address it counts from 1."""
    text = parameters.get(name, "")
    return max(0, int(text) - 1) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _pairs(meta: Any) -> list[Any]:
    """Return the entries of `meta`; it is a map in format 1."""
    return list(meta.items()) if isinstance(meta, dict) else meta or []


def _is_extra(name: str) -> bool:
    return name not in (*Document.__struct_fields__, *Reject.__struct_fields__, "file_row_number")
