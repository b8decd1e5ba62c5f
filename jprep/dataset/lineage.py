"""Trace tokens of a dataset back to their document, corpus shard and source files."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.api import Corpus
from jprep.corpus.document import Document
from jprep.corpus.shard_reader import CorpusShard, read_batches
from jprep.corpus.store import MANIFEST, read_rows
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import (
    DatasetManifest,
    ShardRange,
    find_split,
    read_dataset,
    refuse_other_tokenizer,
    verify_split,
)
from jprep.dataset.mix_parts import MixPart
from jprep.dataset.preprocessing.part_assignment import PartAssignment
from jprep.dataset.preprocessing.split_assignment import SplitAssignment
from jprep.engine.stage import Output
from jprep.errors import ConfigError, MismatchError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.card import CARD_JSON, read_card

AROUND = 20
"""Tokens of context shown on each side of a token."""


class DocumentLocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document of a dataset and the corpus shard it came from.

    Attributes:
        split: `train`, `validation` or `test`.
        document: index in the split, from 0.
        tokens: index of its first token in the split, and of the one after its last.
        part: the corpus shard that holds it.
        sha256: SHA-256 of that shard.
        number: index among the split's documents of that shard, from 0; among those of `mix_part`, if there is one.
        mix_part: the part of the mixture that it belongs to, or "".
    """

    split: str
    document: int
    tokens: tuple[int, int]
    part: str
    sha256: str
    number: int
    mix_part: str = ""


class DocumentOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """A document as the corpus describes it.

    Attributes:
        id, title, url, source: columns of the document.
        row: index in its shard, from 0; shard and row identify a document even if ids repeat.
        about: name, licence and homepage of its source, and the source's files with their hashes.
    """

    id: str
    title: str
    url: str
    source: str
    row: int
    about: dict[str, Any]


def open_split(folder: Path, dataset: DatasetManifest, split: str) -> IndexedSplit:
    """Open a split of a dataset.

    Raises:
        ConfigError: the dataset has no split of that name.
        DamagedError: a file of the split has changed.
    """
    verify_split(folder, find_split(dataset, split, folder))
    return IndexedSplit(folder / split, dataset.dtype)


def locate_document(
    folder: Path, split: str, *, token: int | None = None, document: int | None = None
) -> DocumentLocation:
    """Return the document with a given number, or the one that contains a given token.

    Args:
        folder: the dataset directory.
        split: the split to search.
        token: index of a token in the split, from 0.
        document: index of a document; used if no token is given.

    Raises:
        ConfigError: the directory holds no finished dataset, or there is no such split, token or document.
    """
    dataset = read_dataset(folder)
    indexed = open_split(folder, dataset, split)
    try:
        number = indexed.sequence_at(token) if token is not None else document or 0
        first, end = indexed.bounds(number)
    except IndexError as error:
        fix = f"{split} has {len(indexed.tokens):,} tokens in {len(indexed):,} documents, counted from 0"
        what = f"document {document} does not exist" if token is None else f"token {token} does not exist"
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
        mix_part=part.mix_part,
    )


def _part_of(dataset: DatasetManifest, split: str, document: int) -> ShardRange:
    return next(part for part in dataset.parts if part.documents[split][0] <= document < part.documents[split][1])


def find_corpus(folder: Path, dataset: DatasetManifest) -> Path | None:
    """Search near a dataset for the corpus it was packed from. Only the fingerprint identifies it."""
    wanted = dataset.made_from["corpus"]["fingerprint"]
    return find_nearby(folder, "corpus", MANIFEST, lambda path: Corpus(path).manifest.fingerprint == wanted)


def find_tokenizer(folder: Path, dataset: DatasetManifest) -> Path | None:
    """Search near a dataset for the tokenizer it was packed with."""
    wanted = dataset.made_from["tokenizer"]["fingerprint"]
    return find_nearby(folder, "tokenizer", CARD_JSON, lambda path: read_card(path).fingerprint == wanted)


def find_nearby(folder: Path, usual: str, manifest: str, matches: Callable[[Path], bool]) -> Path | None:
    """Search for an output beside another one, its usual location first, and in the same work directory.

    Args:
        folder: the output to search from.
        usual: the usual name of the directory that is searched.
        manifest: the name of its manifest.
        matches: whether a directory with such a manifest is the one.
    """
    parent = folder.resolve().parent
    siblings = _directories_with(parent, manifest, "*")
    cousins = _directories_with(parent.parent, manifest, f"*/{usual}")
    for path in dict.fromkeys([parent / usual, *siblings, *cousins]):
        with contextlib.suppress(ConfigError, OSError):
            if (path / manifest).is_file() and matches(path):
                return path
    return None


def _directories_with(folder: Path, manifest: str, pattern: str) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(path.parent for path in folder.glob(f"{pattern}/{manifest}"))
    return []


def find_origin(dataset: DatasetManifest, location: DocumentLocation, corpus: Path) -> DocumentOrigin:
    """Look up a document in the corpus that the dataset was packed from.

    Raises:
        ConfigError: the directory holds no corpus.
        MismatchError: it is another corpus, or the shard has changed.
    """
    fix = "pass the dataset's corpus with --corpus"
    if Corpus(corpus).manifest.fingerprint != dataset.made_from["corpus"]["fingerprint"]:
        raise MismatchError("this dataset was packed from another corpus", where=str(corpus), fix=fix)
    made_from = dataset.made_from
    config, by_text = made_from["config"], made_from.get("split_by_text", ())
    splitting = SplitAssignment(config["validation"], config.get("test", 0.0), by_text)
    part, left = Output(location.part, 0, location.sha256), location.number
    columns = {"title", "url", "source", *splitting.columns}
    own = _in_part(dataset, location, corpus)
    for row, doc in enumerate(read_rows(corpus, part, Document, sorted(columns), fix=fix)):
        if next(own) and splitting.split_of(doc) == location.split:
            if not left:
                about = next(source for source in dataset.sources if source["name"] == doc.source)
                return DocumentOrigin(id=doc.id, title=doc.title, url=doc.url, source=doc.source, row=row, about=about)
            left -= 1
    raise MismatchError("the shard has fewer documents than were packed", where=str(corpus / location.part))


def _in_part(dataset: DatasetManifest, location: DocumentLocation, corpus: Path) -> Iterator[bool]:
    """Return whether each document of the shard belongs to the part of the mixture in which the location is."""
    return _chosen_by_mixture(dataset, location, corpus) if location.mix_part else itertools.repeat(True)


def _chosen_by_mixture(dataset: DatasetManifest, location: DocumentLocation, corpus: Path) -> Iterator[bool]:
    parts = msgspec.convert(dataset.made_from["mix"]["parts"], list[MixPart])
    chosen = PartAssignment(parts)
    number = [part.name for part in parts].index(location.mix_part)
    for batch in read_batches(corpus, CorpusShard(location.part, location.sha256, 0), chosen.columns):
        yield from (chosen.parts_of(batch) == number).tolist()


def text_around(
    folder: Path, dataset: DatasetManifest, location: DocumentLocation, token: int, tokenizer: Path
) -> tuple[str, str, str]:
    """Return the text before a token, of the token, and after it, within its document.

    Raises:
        ConfigError: the directory holds no tokenizer, or a different tokenizer than the dataset's.
    """
    loaded = load_tokenizer(tokenizer)
    fix = "pass the dataset's tokenizer with --tokenizer"
    refuse_other_tokenizer(dataset, loaded.card.fingerprint, where=tokenizer, fix=fix)
    tokens = open_split(folder, dataset, location.split).tokens
    first, end = max(location.tokens[0], token - AROUND), min(location.tokens[1], token + 1 + AROUND)
    before, own, after = (
        loaded.decode(tokens[start:stop].tolist())
        for start, stop in ((first, token), (token, token + 1), (token + 1, end))
    )
    return before, own, after
