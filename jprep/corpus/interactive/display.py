"""What Jupyter and a Python prompt display of a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from jprep.corpus.document import Document
from jprep.corpus.store import Manifest, read_rows
from jprep.errors import JprepError
from jprep.html.notebook import (
    TITLE_LIMIT,
    Cell,
    Fragment,
    bar,
    columns,
    display,
    excerpt,
    figures,
    heading,
    note,
    section,
    table,
)
from jprep.html.text import shortened
from jprep.io.escaping import one_line
from jprep.plurals import counted

_DOCUMENTS, _REASONS = 5, 12
"""Documents and reasons that are shown."""

_ORDER = ("documents", "paragraphs", "sentences", "words", "characters", "bytes")


def describe(folder: Path, manifest: Manifest) -> str:
    """Return a corpus in one line."""
    totals = manifest.totals
    size = f"{counted(totals.get('documents', 0), 'document')}, {totals.get('characters', 0):,} characters"
    return one_line(f"<Corpus {shortened(manifest.name, TITLE_LIMIT)!r} in {str(folder)!r}: {size}>")


def corpus_html(folder: Path, manifest: Manifest) -> str:
    """Return name, totals, funnel, sources and first documents of a corpus as HTML."""
    totals: dict[str, Cell] = {name: manifest.totals[name] for name in _ORDER if name in manifest.totals}
    return display(
        heading("Corpus", manifest.name, folder),
        columns(section("Totals", figures(totals or {"documents": 0})), section("Funnel", _funnel(manifest))),
        section("Sources", table(map(_source, manifest.sources), ("name", "licence", "homepage"))),
        section("First documents", _first_documents(folder, manifest)),
        note(manifest.signature),
    )


def _funnel(manifest: Manifest) -> Fragment:
    """Return the documents read, those dropped by reason, and those kept, as a table with bars."""
    kept = manifest.totals.get("documents", 0)
    read = kept + sum(manifest.rejects.values())
    largest = sorted(manifest.rejects.items(), key=lambda item: -item[1])
    rows: list[tuple[str, int]] = [("read", read), *((f"− {reason}", number) for reason, number in largest[:_REASONS])]
    if rest := largest[_REASONS:]:
        rows.append((f"− {len(rest)} further reasons", sum(number for _, number in rest)))
    rows.append(("kept", kept))
    return table([(name, number, bar(number / read) if read and number else "") for name, number in rows])


def _source(source: dict[str, Any]) -> tuple[str, str, str]:
    return str(source.get("name", "")), str(source.get("licence", "")) or "not stated", str(source.get("homepage", ""))


def _first_documents(folder: Path, manifest: Manifest) -> Fragment:
    """Return the first documents; a display raises no error, so damage is shown in their place."""
    try:
        found = list(islice(_documents(folder, manifest), _DOCUMENTS))
    except JprepError as error:
        return note(f"cannot be shown: {error}")
    rows = [(shortened(doc.title, TITLE_LIMIT) or doc.id, excerpt(doc.text), len(doc.text)) for doc in found]
    return table(rows, ("title", "text", "characters")) if rows else note("there are none")


def _documents(folder: Path, manifest: Manifest) -> Iterator[Document]:
    for part in manifest.parts:
        yield from read_rows(folder, part, Document, ["id", "title", "text"])
