"""Figures of a dataset: sizes, lengths of documents, special tokens, tokens by source, and rows with their words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.stages.read import source_index
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.lineage import find_corpus, find_tokenizer, open_split
from jprep.dataset.manifest import SENTENCE_START, WORD_START, DatasetManifest, Split, stored_size
from jprep.engine.stage import Output
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.tokenizer import Tokenizer

Integers = npt.NDArray[np.int64]

_COUNTED = 4_000_000  # tokens of a split in which special tokens are counted
_BLOCK = 1 << 16
_ROW = 96  # tokens of a shown row
_SHOWN = 3  # rows of each split
_BINS = 40


class SplitFigures(NamedTuple):
    """Figures of a split.

    Attributes:
        name: its name.
        documents: number of documents.
        tokens: number of tokens, with one end-of-document token for each document.
        text_bytes: UTF-8 bytes of its text.
        disk_bytes: bytes of its files.
        words: number of words; 0 if they are unknown.
        sentences: number of sentences.
        special: name of a special token or the unknown one → its share of the tokens that were counted.
        counted: the number of tokens that were counted for these shares.
    """

    name: str
    documents: int
    tokens: int
    text_bytes: int
    disk_bytes: int
    words: int
    sentences: int
    special: dict[str, float]
    counted: int


class ShownToken(NamedTuple):
    """A piece of a shown row.

    Attributes:
        text: its text.
        word: whether a word begins at it.
        sentence: whether a sentence begins at it.
        special: whether it is a special token.
    """

    text: str
    word: bool
    sentence: bool
    special: bool


class ShownRow(NamedTuple):
    """The beginning of a document.

    Attributes:
        split: its split.
        document: its number in the split.
        tokens: its pieces.
        left_out: number of further tokens of the document.
    """

    split: str
    document: int
    tokens: list[ShownToken]
    left_out: int


class Lengths(NamedTuple):
    """A histogram of the documents' lengths in tokens; `edges` has one more entry than `counts`."""

    edges: list[float]
    counts: list[int]
    shortest: int
    median: float
    longest: int


class DatasetFigures(NamedTuple):
    """Everything that a report about a dataset shows.

    Attributes:
        manifest: the dataset's manifest.
        splits: figures of each split.
        lengths: lengths of the documents of all splits; None if there are none.
        rows: some rows with their words; empty if the tokenizer was not found.
        by_source: tokens of each source.
        corpus, tokenizer: the corpus and the tokenizer, if they were found nearby.
    """

    manifest: DatasetManifest
    splits: list[SplitFigures]
    lengths: Lengths | None
    rows: list[ShownRow]
    by_source: dict[str, int]
    corpus: Path | None
    tokenizer: Path | None


def dataset_figures(folder: Path, manifest: DatasetManifest) -> DatasetFigures:
    """Return the figures of a dataset.

    Raises:
        DamagedError: a file has changed since it was packed.
        MachineError: a file cannot be read.
    """
    corpus, found = find_corpus(folder, manifest), find_tokenizer(folder, manifest)
    tokenizer = load_tokenizer(found) if found else None
    opened = [(split, open_split(folder, manifest, split.name)) for split in manifest.splits]
    return DatasetFigures(
        manifest=manifest,
        splits=[_split_figures(folder, manifest, split, indexed, tokenizer) for split, indexed in opened],
        lengths=_lengths([np.diff(indexed.offsets) for _, indexed in opened if len(indexed)]),
        rows=[row for split, indexed in opened for row in _rows(split.name, indexed, tokenizer)],
        by_source=_tokens_by_source(manifest),
        corpus=corpus,
        tokenizer=found,
    )


def _split_figures(
    folder: Path, manifest: DatasetManifest, split: Split, indexed: IndexedSplit, tokenizer: Tokenizer | None
) -> SplitFigures:
    names = _special_names(manifest, tokenizer)
    counted = _blocks(indexed)
    totals = dict.fromkeys(names, 0)
    size = 0
    for block in counted:
        size += len(block)
        for number in names:
            totals[number] += int(np.count_nonzero(block == number))
    return SplitFigures(
        name=split.name,
        documents=split.documents,
        tokens=split.tokens,
        text_bytes=manifest.counts.get(f"{split.name}.bytes", 0),
        disk_bytes=stored_size(folder, split),
        words=manifest.counts.get(f"{split.name}.words", 0),
        sentences=manifest.counts.get(f"{split.name}.sentences", 0),
        special={names[number]: count / size for number, count in totals.items()} if size else {},
        counted=size,
    )


def _special_names(manifest: DatasetManifest, tokenizer: Tokenizer | None) -> dict[int, str]:
    """Return the special tokens, the unknown one among them, by id."""
    names = {} if tokenizer is None else {tokenizer.id_of(token): token for token in tokenizer.special.tokens}
    if tokenizer is not None and tokenizer.unk is not None:
        names[tokenizer.unk] = f"{names.get(tokenizer.unk, tokenizer.piece_of(tokenizer.unk))} (unknown)"
    names[manifest.end] = f"{names.get(manifest.end, manifest.end)} (end of a document)"
    return names


def _blocks(indexed: IndexedSplit) -> Iterator[npt.NDArray[np.integer]]:
    """Yield blocks of a split's tokens, evenly spaced if there are more than are counted."""
    blocks = -(-len(indexed.tokens) // _BLOCK)
    chosen = min(blocks, _COUNTED // _BLOCK)
    for number in range(chosen):
        start = (number * blocks // chosen) * _BLOCK
        yield indexed.tokens[start : start + _BLOCK]


def _lengths(lengths: list[Integers]) -> Lengths | None:
    if not lengths:
        return None
    every = np.concatenate(lengths)
    low, high = max(int(every.min()), 1), int(every.max())
    spaced = np.geomspace(low, high + 1, _BINS + 1) if high - low > _BINS else np.arange(low, high + 2)
    edges = np.unique(spaced.round())
    counts, _ = np.histogram(every, edges)
    found = [float(edge) for edge in edges]
    return Lengths(found, counts.tolist(), int(every.min()), float(np.median(every)), high)


def _rows(split: str, indexed: IndexedSplit, tokenizer: Tokenizer | None) -> Iterator[ShownRow]:
    """Yield the beginnings of some documents, evenly spaced."""
    if tokenizer is None:
        return
    special = {tokenizer.id_of(token) for token in tokenizer.special.tokens}
    shown = min(_SHOWN, len(indexed))
    for document in (number * len(indexed) // shown for number in range(shown)):
        start, end = indexed.bounds(document)
        stop = min(end, start + _ROW)
        tokens = list(_shown(tokenizer, special, indexed.tokens[start:stop].tolist(), indexed.marks(start, stop)))
        yield ShownRow(split, document, tokens, end - stop)


def _shown(
    tokenizer: Tokenizer, special: set[int], ids: list[int], marks: npt.NDArray[np.uint8]
) -> Iterator[ShownToken]:
    """Yield the pieces of a row; tokens that together spell one character are one piece."""
    for start, end in pairwise(_whole_characters(tokenizer, ids)):
        text = tokenizer.decode(ids[start:end])
        mark = int(marks[start])
        yield ShownToken(text, bool(mark & WORD_START), bool(mark & SENTENCE_START), ids[start] in special)


def _whole_characters(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """Return the positions at which the text can be cut: where the tokens so far decode to whole characters."""
    ends, start = [0], 0
    for end in range(1, len(ids) + 1):
        if "\ufffd" not in tokenizer.decode(ids[start:end]) or end - start == 4:
            ends.append(end)
            start = end
    return ends if start == len(ids) else [*ends, len(ids)]


def _tokens_by_source(manifest: DatasetManifest) -> dict[str, int]:
    """Return the tokens of each source: a shard of a corpus has documents of one source."""
    found = {str(source["name"]): 0 for source in manifest.sources}
    names = list(found)
    for part in manifest.parts:
        number = source_index(Output(part.path, 0, part.sha256))
        if 0 <= number < len(names):
            found[names[number]] += sum(end - start for start, end in part.tokens.values())
    return found
