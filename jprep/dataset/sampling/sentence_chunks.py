"""Divide documents into chunks of whole sentences, from which rows of sentence pairs are made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from jprep.dataset.manifest import SENTENCE_START, WORD_START
from jprep.dataset.sampling.masking import Flags
from jprep.dataset.sampling.sample_index import (
    LENGTH_BITS,
    Integers,
    SampleIndex,
    SeparatorIds,
    SplitTokens,
    write_sample_index,
)

_BLOCK = 1 << 20  # tokens of whole documents read at a time; a longer document is read whole


class DocumentTokens(SplitTokens, Protocol):
    """The tokens of a split and the bounds of its documents; see `jprep.dataset.indexed.split.IndexedSplit`."""

    def __len__(self) -> int:
        """Return the number of documents."""

    def bounds(self, sequence: int) -> tuple[int, int]:
        """Return a document's first token, and the one after its last."""

    def sequence_at(self, token: int) -> int:
        """Return the document that contains a token."""


class Sentences(NamedTuple):
    """Consecutive sentences without the newlines between them.

    Attributes:
        ids: their tokens, (tokens,).
        word_starts: which of them begin a word, (tokens,).
        edges: offset of each sentence in `ids`, and the end of the last one, (sentences + 1,).
        places: position of each token before newlines were left out, (tokens,).
    """

    ids: npt.NDArray[Any]
    word_starts: Flags
    edges: Integers
    places: Integers

    def __len__(self) -> int:
        return len(self.edges) - 1


def split_sentences(ids: npt.NDArray[Any], marks: npt.NDArray[np.uint8], newline: int, longest: int) -> Sentences:
    """Divide tokens into sentences.

    Newlines before a sentence are left out. A sentence of more than `longest` tokens counts as several, cut after every
    `longest` tokens.

    Args:
        ids: tokens of one document, or a part of it that begins with a sentence, without the end-of-document token.
        marks: their marks.
        newline: id of the newline between paragraphs; -1 if there is none.
        longest: maximum tokens of a sentence.
    """
    starts = (marks & SENTENCE_START) != 0
    starts[:1] = True
    places = (~_newlines_before(starts, ids == newline)).nonzero()[0]
    sentence = np.cumsum(starts)[places]
    firsts = np.append((np.diff(sentence, prepend=-1) != 0).nonzero()[0], len(places))
    edges = np.append(_cut(firsts[:-1], np.diff(firsts), longest), len(places))
    return Sentences(ids[places], (marks[places] & WORD_START) != 0, edges, places)


def open_chunk_index(path: Path, split: DocumentTokens, length: int, separators: SeparatorIds) -> SampleIndex:
    """Open a split's list of chunks; write it if it is missing or damaged.

    A chunk is a run of sentences of one document: as many as are needed for `length` tokens, or the rest of the
    document.

    Args:
        path: the index file; its name must contain everything that the chunks depend on.
        split: the split's tokens.
        length: tokens that a chunk has at least, if its document continues.
        separators: ids between paragraphs and documents.

    Raises:
        MachineError: the disk is full or not writable.
    """
    return write_sample_index(path, lambda: _chunks(split, length, separators))


def _newlines_before(starts: Flags, newlines: Flags) -> Flags:
    """Return which newlines have nothing but newlines between them and the next sentence, or the end."""
    boundary = np.append(starts, True)
    text = np.where(newlines, len(starts), np.arange(len(starts)))
    following = np.minimum.accumulate(text[::-1])[::-1]  # the first token from here on that is not a newline
    found: Flags = newlines & boundary[following]
    return found


def _cut(starts: Integers, sizes: Integers, longest: int) -> Integers:
    """Return the starts of ranges, and of the parts of those that are longer than `longest`."""
    counts = -(-sizes // longest)
    part = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    found: Integers = np.repeat(starts, counts) + part * longest
    return found


def _chunks(split: DocumentTokens, length: int, separators: SeparatorIds) -> Iterator[Integers]:
    """Yield the chunks of a split, a block of documents at a time."""
    document, count = 0, len(split)
    while document < count:
        start = split.bounds(document)[0]
        last = split.sequence_at(min(start + _BLOCK, len(split.tokens)) - 1)
        stop = max(document + 1, last if last < count - 1 else count)
        found = [_document_chunks(split, number, length, separators.newline) for number in range(document, stop)]
        split.release()
        yield np.concatenate(found)
        document = stop


def _document_chunks(split: DocumentTokens, document: int, length: int, newline: int) -> Integers:
    """Return the entries of a document's chunks."""
    start, stop = split.bounds(document)
    sentences = read_sentences(split, start, stop - 1, newline, length)
    edges, places = sentences.edges.tolist(), sentences.places + start
    cuts = [0]
    while cuts[-1] < len(sentences):
        enough = bisect_left(edges, edges[cuts[-1]] + length, cuts[-1] + 1)
        cuts.append(min(enough, len(sentences)))
    inner = sentences.edges[cuts]
    firsts, lasts = places[inner[:-1]], places[inner[1:] - 1]
    return firsts << LENGTH_BITS | (lasts + 1 - firsts)


def read_sentences(split: DocumentTokens, start: int, stop: int, newline: int, longest: int) -> Sentences:
    """Return the sentences of tokens `start` to `stop`; see `split_sentences`."""
    return split_sentences(np.asarray(split.tokens[start:stop]), split.marks(start, stop), newline, longest)
