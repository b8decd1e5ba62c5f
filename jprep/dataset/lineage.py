"""Where a token came from: its document, its part of the corpus, its source's files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.api import Corpus
from jprep.corpus.document import Document
from jprep.corpus.store import MANIFEST, read_rows
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import DatasetManifest, ShardRange, read_dataset, verify_split
from jprep.dataset.preprocessing.validation_split import ValidationSplit
from jprep.engine.stage import Output
from jprep.errors import ConfigError, MismatchError
from jprep.tokenizer.card import CARD_JSON, read_card
from jprep.tokenizer.tokenizer import Tokenizer

AROUND = 20
"""Tokens shown on each side of one."""


class DocumentLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A document of a dataset, and where it came from.

    Attributes:
        split: `train` or `validation`.
        document: its number in the split, from 0.
        tokens: its first token in the split, and the one behind its last.
        part: the corpus's part that it lies in.
        sha256: of that part.
        number: which of the split's documents in that part it is, from 0.
    """

    split: str
    document: int
    tokens: tuple[int, int]
    part: str
    sha256: str
    number: int


class DocumentOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a corpus knows of a document.

    Attributes:
        id, title, url, source: the document's.
        row: its number in its part, from 0; with the part it tells documents apart whose ids do not.
        about: its source's name, licence and homepage, and its files with their hashes.
    """

    id: str
    title: str
    url: str
    source: str
    row: int
    about: dict[str, Any]


def open_split(folder: Path, dataset: DatasetManifest, split: str) -> IndexedSplit:
    """A dataset's split.

    Raises:
        ConfigError: it has none of that name.
        DamagedError: its files are not what was written.
    """
    found = next((each for each in dataset.splits if each.name == split), None)
    if found is None:
        fix = f"there are: {', '.join(each.name for each in dataset.splits)}"
        raise ConfigError(f"this dataset has no split {split!r}", where=str(folder), fix=fix)
    verify_split(folder, found)
    return IndexedSplit(folder / split, dataset.dtype)


def locate_document(
    folder: Path, split: str, *, token: int | None = None, document: int | None = None
) -> DocumentLocation:
    """The document that a token lies in, or the one of a number.

    Args:
        folder: the dataset's.
        split: the token's or the document's.
        token: its number in the split, from 0.
        document: used where no token is given.

    Raises:
        ConfigError: there is no finished dataset there, or no such split, token or document in it.
    """
    dataset = read_dataset(folder)
    indexed = open_split(folder, dataset, split)
    try:
        number = indexed.sequence_at(token) if token is not None else document or 0
        first, end = indexed.bounds(number)
    except IndexError as error:
        fix = f"{split} has {len(indexed.tokens):,} tokens in {len(indexed):,} documents, counted from 0"
        what = f"there is no document {document}" if token is None else f"there is no token {token}"
        raise ConfigError(what, where=f"{folder}, {split}", fix=fix) from error
    number %= len(indexed)
    part = _part_of(dataset, split, number)
    before = part.documents[split][0]
    return DocumentLocation(
        split=split,
        document=number,
        tokens=(first, end),
        part=part.path,
        sha256=part.sha256,
        number=number - before,
    )


def _part_of(dataset: DatasetManifest, split: str, document: int) -> ShardRange:
    return next(part for part in dataset.parts if part.documents[split][0] <= document < part.documents[split][1])


def find_corpus(folder: Path, dataset: DatasetManifest) -> Path | None:
    """Return the corpus that a dataset was made of, if it is near: only its fingerprint tells it from others."""
    mark = dataset.made_from["corpus"]["fingerprint"]
    return _nearby(folder, "corpus", MANIFEST, lambda place: Corpus(place).manifest.fingerprint == mark)


def find_tokenizer(folder: Path, dataset: DatasetManifest) -> Path | None:
    """Return the tokenizer that a dataset was packed with, if it is near."""
    mark = dataset.made_from["tokenizer"]["fingerprint"]
    return _nearby(folder, "tokenizer", CARD_JSON, lambda place: read_card(place).fingerprint == mark)


def _nearby(folder: Path, usual: str, manifest: str, fits: Callable[[Path], bool]) -> Path | None:
    """Look beside a dataset, in its usual place first, and in the same work directory."""
    beside = folder.resolve().parent
    found = [beside / usual, *_holding(beside, manifest, "*"), *_holding(beside.parent, manifest, f"*/{usual}")]
    for place in dict.fromkeys(found):
        with contextlib.suppress(ConfigError, OSError):
            if (place / manifest).is_file() and fits(place):
                return place
    return None


def _holding(folder: Path, manifest: str, pattern: str) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(path.parent for path in folder.glob(f"{pattern}/{manifest}"))
    return []


def find_origin(dataset: DatasetManifest, place: DocumentLocation, corpus: Path) -> DocumentOrigin:
    """Look a document up in the corpus that the dataset was made of.

    Raises:
        ConfigError: there is no corpus there.
        MismatchError: it is another one, or its part is not what it was.
    """
    fix = "give the corpus that it was made of as --corpus"
    if Corpus(corpus).manifest.fingerprint != dataset.made_from["corpus"]["fingerprint"]:
        raise MismatchError("this dataset was made of another corpus", where=str(corpus), fix=fix)
    made_from = dataset.made_from
    splitting = ValidationSplit(made_from["config"]["validation"], made_from.get("split_by_text", ()))
    part, left = Output(place.part, 0, place.sha256), place.number
    columns = {"title", "url", "source", *splitting.columns}
    for row, doc in enumerate(read_rows(corpus, part, Document, sorted(columns), fix=fix)):
        if splitting.split_of(doc) == place.split:
            if not left:
                about = next(source for source in dataset.sources if source["name"] == doc.source)
                return DocumentOrigin(id=doc.id, title=doc.title, url=doc.url, source=doc.source, row=row, about=about)
            left -= 1
    raise MismatchError("the part has fewer documents than were packed", where=str(corpus / place.part))


def text_around(
    folder: Path, dataset: DatasetManifest, place: DocumentLocation, token: int, tokenizer: Path
) -> tuple[str, str, str]:
    """The text before a token, its own, and the text after it, within its document.

    Raises:
        ConfigError: there is no tokenizer there.
        MismatchError: it is another one.
    """
    loaded = Tokenizer(tokenizer)
    if loaded.card.fingerprint != dataset.made_from["tokenizer"]["fingerprint"]:
        fix = "give the tokenizer that it was packed with as --tokenizer"
        raise MismatchError("this dataset was packed with another tokenizer", where=str(tokenizer), fix=fix)
    tokens = open_split(folder, dataset, place.split).tokens
    first, end = max(place.tokens[0], token - AROUND), min(place.tokens[1], token + 1 + AROUND)
    before, own, after = (
        loaded.decode(tokens[start:stop].tolist())
        for start, stop in ((first, token), (token, token + 1), (token + 1, end))
    )
    return before, own, after
