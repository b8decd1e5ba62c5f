"""Rows of two segments for BERT's next-sentence task, by step. `docs/sampling.md` has the rules.

Every decision about a row is drawn from counter-based bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from jprep.dataset.sampling.masking import IGNORE_INDEX, Flags, MaskedRows, Masking, threshold
from jprep.dataset.sampling.open_samples import SAMPLE_INDEX_SUFFIX
from jprep.dataset.sampling.sample_index import LENGTH_BITS, Integers, Ranges
from jprep.dataset.sampling.sampler import (
    Batch,
    SamplerConfig,
    SplitData,
    TextSampler,
    check_vocabulary,
    mask_keys,
)
from jprep.dataset.sampling.sentence_chunks import (
    DocumentTokens,
    Sentences,
    open_chunk_index,
    read_sentences,
)
from jprep.dataset.sampling.sources import ListedBySource
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.random.counter_bits import UInt64Array, below, bits, key

SHORT_ROWS, RANDOM_NEXT = 0.1, 0.5
"""Shares of rows with a shorter target length, and with a second segment from another document."""

IS_NEXT, IS_RANDOM = 0, 1
"""Labels of a row, as in transformers and google-research/bert."""

SHORT, TARGET, FIRST, END_OF_A, RANDOM, TAIL, DOCUMENT, SENTENCE, TRUNCATE = range(9)
"""Counters of a row's decisions; each removed token has one of its own, from `TRUNCATE` on."""

_MAX_LENGTH = 1 << (LENGTH_BITS - 2)
_PROBES = 1000  # chunks that are searched for one with two sentences
_HALF = np.uint64(32)

Text = tuple[npt.NDArray[Any], Flags]
"""Ids and word starts of a segment."""


class Segment(NamedTuple):
    """Consecutive sentences.

    Attributes:
        sentences: the sentences of a chunk or a document.
        first, last: the first one, and the one after the last.
    """

    sentences: Sentences
    first: int
    last: int

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.sentences.edges[self.last] - self.sentences.edges[self.first])

    def text(self, front: int, back: int) -> Text:
        """Return its tokens without some at both ends."""
        start, stop = self.sentences.edges[[self.first, self.last]].tolist()
        part = slice(start + front, stop - back)
        return self.sentences.ids[part], self.sentences.word_starts[part]


class Pair(NamedTuple):
    """Two segments before special tokens are added.

    Attributes:
        first, second: the segments.
        label: `IS_NEXT` if the second segment follows the first in its document, else `IS_RANDOM`.
    """

    first: Text
    second: Text
    label: int


class PairSampler(TextSampler):
    """Sentence pairs, with labels for masked tokens and for the next-sentence task: `segments` and `next_sentence`.

    Args:
        source: the split.
        config: batch, length, seed and split; `packing` has no effect.
        special: the tokenizer's special ids.
        masking: masks tokens; without it, no token has a label.

    Raises:
        ConfigError: `length` leaves no room for two segments, the tokenizer has no separator or is not the dataset's,
            or the split has fewer than two documents or none with two sentences.
        MachineError: the sample index cannot be written.
    """

    def __init__(
        self, source: SplitData, config: SamplerConfig, special: SpecialIds, masking: Masking | None = None
    ) -> None:
        check_vocabulary(source, special)
        self._split, self._room = cast(DocumentTokens, source.tokens), _room(config, special)
        stem = f"{config.split}.pairs-{config.length}-{special.around_pair}-{source.fingerprint}"
        path = source.folder / (stem + SAMPLE_INDEX_SUFFIX)
        chunks = open_chunk_index(path, self._split, self._room, source.separators)
        self._chunks: Ranges = ListedBySource(chunks, source.sources) if config.mix else chunks
        super().__init__(source, config, special, masking, self._chunks)
        self._check_sentences()

    def _rows(self, epochs: Integers, indices: Integers) -> Batch:
        keys = key(self._config.seed, self._config.split, epochs, indices, "pair")
        starts, sizes = self._chunks.spans(indices)
        pairs = [
            self._pair(start, start + size, keys[row : row + 1])
            for row, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True))
        ]
        self._split.release()
        return self._batch(pairs, epochs, indices)

    def _pair(self, start: int, stop: int, row_key: UInt64Array) -> Pair:
        """Return the pair of a chunk."""
        row_bits = bits(row_key, np.arange(TRUNCATE, dtype=np.uint64))
        first, second, label = self._segments(start, stop, row_bits)
        lost_first, lost_second = truncation(first.tokens, second.tokens, self._room, row_key)
        return Pair(first.text(*lost_first), second.text(*lost_second), label)

    def _segments(self, start: int, stop: int, row_bits: UInt64Array) -> tuple[Segment, Segment, int]:
        """Divide a chunk into two segments, or take the second one from another document."""
        sentences, target = self._read(start, stop), self._target(row_bits)
        begin = _drawn(row_bits, FIRST, len(sentences)) if target < self._room else 0
        end = _enough(sentences, begin, target)
        several = end - begin > 1
        middle = begin + 1 + _drawn(row_bits, END_OF_A, end - begin - 1) if several else end
        head, tail = Segment(sentences, begin, middle), Segment(sentences, middle, end)
        if several and not _chance(row_bits, RANDOM, RANDOM_NEXT):
            return head, tail, IS_NEXT
        first = tail if several and _chance(row_bits, TAIL, 0.5) else head
        other = self._other_document(self._split.sequence_at(start), row_bits)
        at = _drawn(row_bits, SENTENCE, len(other))
        return first, Segment(other, at, _enough(other, at, target - first.tokens)), IS_RANDOM

    def _target(self, row_bits: UInt64Array) -> int:
        """Return the number of tokens that the row is filled up to."""
        short = _chance(row_bits, SHORT, SHORT_ROWS)
        return 2 + _drawn(row_bits, TARGET, self._room - 1) if short else self._room

    def _other_document(self, own: int, row_bits: UInt64Array) -> Sentences:
        """Return another document; one without text is replaced by the next that has some."""
        number = _drawn(row_bits, DOCUMENT, len(self._split) - 1)
        number += number >= own
        while number == own or not len(found := self._document(number)):
            number = (number + 1) % len(self._split)
        return found

    def _document(self, number: int) -> Sentences:
        start, stop = self._split.bounds(number)
        return self._read(start, stop - 1)

    def _batch(self, pairs: list[Pair], epochs: Integers, indices: Integers) -> Batch:
        special, shape = self._special, (len(pairs), self._config.length)
        ids, segments = np.full(shape, special.pad, np.int32), np.zeros(shape, np.int32)
        words, lengths = np.zeros(shape, np.bool_), np.zeros(len(pairs), np.int32)
        for row, pair in enumerate(pairs):
            at = 0
            for part, starts in self._parts(pair):
                ids[row, at : at + len(part)], words[row, at : at + len(part)] = part, starts
                at += len(part)
            lengths[row] = at
            segments[row, at - len(pair.second[0]) - len(special.pair_after) : at] = 1
        masking = self._masking
        masked = MaskedRows(ids, np.full_like(ids, IGNORE_INDEX))
        if masking:
            masked = masking(ids, lengths, mask_keys(self._config, epochs, indices), words)
        labels = np.array([pair.label for pair in pairs], np.int32)
        shown = words if self._needs_word_starts else None
        return Batch(masked.ids, masked.labels, lengths, shown, epochs, indices, segments, labels)

    def _parts(self, pair: Pair) -> list[tuple[Any, Any]]:
        special = self._special
        return [
            (special.before, False),
            pair.first,
            (special.between, False),
            pair.second,
            (special.pair_after, False),
        ]

    def _read(self, start: int, stop: int) -> Sentences:
        return read_sentences(self._split, start, stop, self._newline, self._room)

    @property
    def _newline(self) -> int:
        return self._source.separators.newline

    def _check_sentences(self) -> None:
        """Check that there are pairs to make."""
        where = f"{self._source.folder}: {self._config.split}"
        ends, _ = self._chunks.spans(np.array([0, len(self._samples) - 1]))
        if self._split.sequence_at(int(ends[0])) == self._split.sequence_at(int(ends[1])):
            fix = "add documents, or leave out next_sentence"
            raise ConfigError("next_sentence needs at least two documents in each split", where=where, fix=fix)
        count = len(self._samples)
        probes = np.linspace(0, count - 1, min(count, _PROBES)).astype(np.int64)
        spans = zip(*(span.tolist() for span in self._chunks.spans(probes)), strict=True)
        if all(len(self._read(start, start + size)) < 2 for start, size in spans):
            what = "next_sentence needs documents of several sentences, and this dataset has no sentence boundaries"
            fix = "build the corpus with a sentence splitter and pack it again, or leave out next_sentence"
            raise ConfigError(what, where=where, fix=fix)


def truncation(first: int, second: int, most: int, row_key: UInt64Array) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return how many tokens two segments lose at the front and at the back, each.

    One token at a time is removed from the longer segment, from the second one if both are equally long, at its front
    or its back by a random bit.

    Args:
        first: tokens of the first segment.
        second: tokens of the second segment.
        most: maximum number of tokens in both.
        row_key: the row's key, (1,).
    """
    number = np.arange(max(0, first + second - most))
    alternating = number - abs(first - second)  # from 0 on, the two are equally long before every other removal
    from_first = np.where(alternating < 0, first > second, alternating % 2 == 1)
    front = bits(row_key, (number + TRUNCATE).astype(np.uint64)) >> _HALF < np.uint64(threshold(0.5))
    counts = [int((side & part).sum()) for part in (from_first, ~from_first) for side in (front, ~front)]
    return (counts[0], counts[1]), (counts[2], counts[3])


def _room(config: SamplerConfig, special: SpecialIds) -> int:
    """Return the number of tokens of text in a full row."""
    if not special.between:
        fix = 'train a tokenizer with special = ["bert"] or ["roberta"]'
        raise ConfigError("next_sentence needs a separator token, and the tokenizer has none", fix=fix)
    room = config.length - special.around_pair
    if room < 2 or config.length >= _MAX_LENGTH:
        what = f"rows of {config.length} tokens cannot hold two segments beside {special.around_pair} special tokens"
        raise ConfigError(what, where="length", fix="e.g. length = 512")
    return room


def _chance(row_bits: UInt64Array, counter: int, share: float) -> bool:
    return bool(row_bits[counter] >> _HALF < np.uint64(threshold(share)))


def _drawn(row_bits: UInt64Array, counter: int, limit: int) -> int:
    """Return a number from 0 to below `limit`."""
    return int(below(limit, row_bits[counter : counter + 1])[0])


def _enough(sentences: Sentences, first: int, tokens: int) -> int:
    """Return the end of the shortest run of sentences from `first` on that has so many tokens; of all if none has."""
    wanted = int(sentences.edges[first]) + tokens
    found = int(np.searchsorted(sentences.edges, wanted))
    return min(max(found, first + 1), len(sentences))
