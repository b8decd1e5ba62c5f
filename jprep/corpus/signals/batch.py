"""Some texts laid out for numpy, so that a signal measures all of them in a few calls."""

from __future__ import annotations

import functools
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.document import SENTENCE, WORD, Document
from jprep.corpus.signals.character_kinds import KINDS, kind_of_code_points
from jprep.random.counter_bits import GOLDEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.step import Signal

_LINE_FEED = 10
_BLOCK = 1 << 15


class TextBatch:
    """Some documents laid out for numpy. What several signals need is computed once, when first asked for.

    Positions are indexes of code points in `codes`, which has the texts of all documents, each followed by a line feed.
    Filters of plugins can use it in `judge_all`, signals in `measure`.

    Args:
        docs: the documents. Their texts must not change while the batch is in use.
        counted: keys of signals that measured and counted these documents before, with other texts.

    Attributes:
        docs: the documents.
    """

    def __init__(self, docs: Sequence[Document], counted: Collection[str] = ()) -> None:
        self.docs: Sequence[Document] = docs
        self._counted = frozenset(counted)
        self._measured: dict[str, Mapping[str, NDArray[np.float64]]] = {}

    def __len__(self) -> int:
        return len(self.docs)

    @cached_property
    def texts(self) -> list[str]:
        """The text of each document."""
        return [doc.text for doc in self.docs]

    @cached_property
    def joined(self) -> str:
        """All texts, each followed by a line feed."""
        return "\n".join([*self.texts, ""])

    @cached_property
    def codes(self) -> NDArray[np.uint32]:
        """The code points of `joined`. A lone surrogate is a code point as well."""
        return code_points(self.joined)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each text begins in `codes`, shape [documents + 1]: text d is codes[starts[d] : starts[d + 1] - 1]."""
        return _offsets(np.fromiter(map(len, self.texts), np.int64, len(self.docs)) + 1)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of characters of each text, shape [documents]."""
        return np.diff(self.starts) - 1

    @cached_property
    def doc_of_code(self) -> NDArray[np.int64]:
        """The index of the document of each code point, shape [code points]."""
        return np.repeat(np.arange(len(self.docs)), np.diff(self.starts))

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """The kind of each code point: an index of `jprep.corpus.signals.character_kinds.KINDS`."""
        return kind_of_code_points().take(self.codes)

    @cached_property
    def kind_counts(self) -> NDArray[np.int64]:
        """The characters of each kind in each text, shape [documents, kinds]."""
        cells = self.doc_of_code * len(KINDS) + self.kinds
        counts = np.bincount(cells, minlength=len(self.docs) * len(KINDS)).reshape(-1, len(KINDS))
        counts[:, 0] -= 1  # the line feed after the text
        return counts

    @cached_property
    def visible(self) -> NDArray[np.int64]:
        """The number of characters of each text other than white space and combining characters, shape [documents]."""
        return np.asarray(self.kind_counts[:, 1:].sum(1), np.int64)

    @cached_property
    def line_starts(self) -> NDArray[np.int64]:
        """Where each line begins in `codes`, shape [lines + 1]: line i is codes[line_starts[i] : line_starts[i+1] - 1].

        Empty lines are lines too; an empty text is one empty line.
        """
        return np.concatenate([[0], np.flatnonzero(self.codes == _LINE_FEED) + 1])

    @cached_property
    def first_lines(self) -> NDArray[np.int64]:
        """The index of the first line of each document, shape [documents]."""
        return np.searchsorted(self.line_starts, self.starts[:-1])

    @cached_property
    def line_docs(self) -> NDArray[np.int64]:
        """The index of the document of each line, shape [lines]."""
        return self._docs_of(self.line_starts[:-1])

    @cached_property
    def line_lengths(self) -> NDArray[np.int64]:
        """The number of characters of each line, shape [lines]."""
        return np.diff(self.line_starts) - 1

    @cached_property
    def line_hashes(self) -> NDArray[np.uint64]:
        """A hash of each line, shape [lines]: equal lines have equal ones."""
        sums = np.zeros(len(self.codes) + 1, np.uint64)
        blocks = range(0, len(self.codes), _BLOCK)
        high = _powers(pow(GOLDEN, _BLOCK, 1 << 64), len(blocks) + 1)
        for block, start in enumerate(blocks):
            part = self.codes[start : start + _BLOCK] * _powers(GOLDEN, _BLOCK)[: len(self.codes) - start]
            own = np.cumsum(part, out=sums[start + 1 : start + 1 + len(part)])
            own *= high[block]
            own += sums[start]
        first, last = self.line_starts[:-1], self.line_starts[1:] - 1
        below = len(self.codes) - first  # a line that begins later has more factors
        return (sums[last] - sums[first]) * _powers(GOLDEN, _BLOCK)[below % _BLOCK] * high[below // _BLOCK]

    @cached_property
    def repeated_lines(self) -> NDArray[np.bool_]:
        """Whether each line occurred before in its document, shape [lines]. Empty lines do not count."""
        return _repeated_lines(self)

    def line(self, index: int) -> str:
        """Return a line."""
        return self.joined[self.line_starts[index] : self.line_starts[index + 1] - 1]

    @cached_property
    def per_line(self) -> TextBatch:
        """A batch whose documents are the lines of this one's, empty ones included, in order."""
        return TextBatch([line for doc in self.docs for line in _lines_of(doc)])

    @cached_property
    def sentence_starts(self) -> NDArray[np.int64]:
        """Where each sentence begins in `codes`, shape [sentences], in order.

        Lines begin sentences, unless they are empty. The splitter's marks are those in `Document.words`; a document
        that was not split has one sentence a line.
        """
        marked = "\n".join([*(doc.words or doc.text for doc in self.docs), ""]).replace(WORD, "")
        marks = np.flatnonzero(code_points(marked) == ord(SENTENCE))
        inside = marks - np.arange(len(marks))
        lines = self.line_starts[:-1][self.line_lengths > 0]
        return np.sort(np.concatenate([lines, inside]))

    @cached_property
    def sentence_docs(self) -> NDArray[np.int64]:
        """The index of the document of each sentence, shape [sentences]."""
        return self._docs_of(self.sentence_starts)

    def _docs_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the document of some places in `codes`, which ascend."""
        return np.repeat(np.arange(len(self.docs)), np.diff(np.searchsorted(places, self.starts)))

    @cached_property
    def sentence_lengths(self) -> NDArray[np.int64]:
        """The number of characters of each sentence, without the end of its line, shape [sentences]."""
        starts, ends = self.sentence_starts, self.line_starts[1:] - 1
        line_ends = ends[np.searchsorted(ends, starts, side="right")] if len(starts) else ends[:0]
        next_starts = np.append(starts[1:], len(self.codes))
        return np.asarray(np.minimum(line_ends, next_starts) - starts, np.int64)

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sum over each text of one value for each code point; 0 for an empty text.

        Args:
            values: numbers or booleans, shape [code points]. Those of the line feeds after the texts do not count.
        """
        if not len(self.docs):
            return np.zeros(0)
        copied = np.array(values, np.float64)
        copied[self.starts[1:] - 1] = 0
        return np.add.reduceat(copied, self.starts[:-1])

    def counts(self, docs: NDArray[np.int64], weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Return how often each document occurs in `docs`, or the sum of its weights, shape [documents].

        Args:
            docs: indexes of documents, e.g. `line_docs`.
            weights: a number for each index; None is one each.
        """
        return np.bincount(docs, weights, minlength=len(self.docs)).astype(np.float64)

    def measured(self, signal: Signal) -> Mapping[str, NDArray[np.float64]]:
        """Return the columns of a signal, each of shape [documents]. The same signal is measured only once."""
        if signal.key not in self._measured:
            before = signal.tally.copy()
            self._measured[signal.key] = signal.measure(self)
            if signal.key in self._counted:
                signal.tally.clear()
                signal.tally.update(before)
        return self._measured[signal.key]

    def provide(self, signal: Signal, columns: Mapping[str, NDArray[np.float64]]) -> None:
        """Give the columns of a signal that were measured before, each of shape [documents]."""
        self._measured[signal.key] = columns

    def without(self, dropped: Container[int]) -> TextBatch:
        """Return a batch without the documents of some indexes, with the signals that are already measured."""
        kept = [index for index in range(len(self.docs)) if index not in dropped]
        made = TextBatch([self.docs[index] for index in kept], self._counted)
        made._measured = {
            key: {name: values[kept] for name, values in columns.items()} for key, columns in self._measured.items()
        }
        return made

    def with_other_texts(self) -> TextBatch:
        """Return a batch of the same documents, whose texts have changed: they are measured, not counted, again."""
        return TextBatch(self.docs, {*self._counted, *self._measured})


def _lines_of(doc: Document) -> Iterator[Document]:
    texts = doc.text.split("\n")
    words = doc.words.split("\n") if doc.words else [""] * len(texts)
    for text, marked in zip(texts, words, strict=True):
        yield Document(doc.id, doc.source, doc.title, doc.url, text, marked, doc.meta)


def _repeated_lines(batch: TextBatch) -> NDArray[np.bool_]:
    """Return whether each line of a batch occurred before in its document. Empty lines do not count."""
    first, again = _pairs_of_equal_hash(batch)
    repeated = np.zeros(len(batch.line_lengths), bool)
    repeated[again] = True
    different = again[~_equal(batch, first, again)]
    for doc in set(batch.line_docs[different].tolist()):  # unequal lines of the same hash
        seen = set[str]()
        for index, line in enumerate(batch.texts[doc].split("\n"), batch.first_lines[doc]):
            repeated[index] = line in seen
            seen |= {line} - {""}
    return repeated


def _pairs_of_equal_hash(batch: TextBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lines of whose hash the same document has an earlier one, and the first such line of each."""
    filled = np.flatnonzero((batch.line_lengths > 0) & (batch.counts(batch.line_docs) > 1)[batch.line_docs])
    if not len(filled):
        return filled, filled
    keys = batch.line_hashes[filled] ^ (batch.line_docs[filled].astype(np.uint64) * np.uint64(GOLDEN))
    order = np.argsort(keys)
    ordered = keys[order]
    groups = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sizes = np.diff(np.append(groups, len(order)))
    first = np.repeat(np.minimum.reduceat(order, groups), sizes)
    again = first != order
    return filled[first[again]], filled[order[again]]


def _equal(batch: TextBatch, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether the lines of each pair are equal and of the same document; none is empty."""
    lengths = batch.line_lengths[second]
    same: NDArray[np.bool_] = (lengths == batch.line_lengths[first]) & (
        batch.line_docs[first] == batch.line_docs[second]
    )
    first, second, lengths = first[same], second[same], lengths[same]
    begins = np.cumsum(lengths) - lengths
    inside = np.arange(lengths.sum()) - np.repeat(begins, lengths)
    left = batch.codes[np.repeat(batch.line_starts[first], lengths) + inside]
    right = batch.codes[np.repeat(batch.line_starts[second], lengths) + inside]
    if len(begins):
        same[same] = np.logical_and.reduceat(left == right, begins)
    return same


@functools.lru_cache(maxsize=4)
def _powers(base: int, number: int) -> NDArray[np.uint64]:
    """Return the first powers of a number modulo 2**64, from the 0th on."""
    factors = np.full(number, base, np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Return `part / whole`, and NaN where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, np.asarray(part, np.float64) / whole, np.nan)
