"""Labelled data for `classify` and `regress`: encode rows, assign folds, and sample batches in the sampler's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from jprep.config import suggest_name
from jprep.dataset.labelled.reader import LabelledConfig, LabelledRow, LabelledTask, read_labelled_rows
from jprep.dataset.labelled.stratified_folds import assign_stratified_folds, check_stratify, find_strata
from jprep.dataset.sampling.masking import Flags, Ids
from jprep.dataset.sampling.sample_index import Integers
from jprep.dataset.sampling.sampler import SampleOrder, length_mask
from jprep.dataset.sampling.special_ids import SpecialIds, VocabularyLike, special_ids
from jprep.errors import ConfigError, InputError
from jprep.random.counter_bits import below

_BLOCK = 1024  # rows encoded at a time
_BETWEEN = "\x1f"
_LONG_INTEGER = 1000  # digits; Python converts only so many


class TokenizerLike(VocabularyLike, Protocol):
    """The part of a tokenizer's interface that is needed; `jprep.load_tokenizer` returns one."""

    def encode_batch(self, texts: Sequence[str]) -> tuple[Ids, Integers]:
        """Return the ids of all texts, concatenated, and the offset of each text."""


class LabelledDataset(NamedTuple):
    """Encoded rows.

    Attributes:
        ids: int32, of all rows, concatenated, including special tokens.
        offsets: int64, (rows + 1,): row i is `ids[offsets[i]:offsets[i + 1]]`.
        seconds: number of ids at the end of each row with token type 1 (the second text and the special tokens after
            it); (rows,), all 0 if the model has no token types.
        targets: (rows,): int64 indices into `names`, or float32 scores.
        names: the labels in order; empty for scores.
        folds: fold of each row, (rows,); all 0 without folds.
        config: how the rows were built.
        pad: padding id.
        counts: number of rows, of truncated rows (`truncated`) and of rows without text (`empty`).
    """

    ids: Ids
    offsets: Integers
    seconds: Integers
    targets: npt.NDArray[Any]
    names: tuple[str, ...]
    folds: Integers
    config: LabelledConfig
    pad: int
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.targets)

    def split(self, fold: int) -> tuple[Integers, Integers]:
        """Return the rows to train on when a fold is held out, and the fold's rows.

        Raises:
            ConfigError: there is no such fold.
        """
        if not 0 <= fold < self.config.folds:
            raise ConfigError(f"fold {fold} does not exist", fix=f"folds = {self.config.folds}, counted from 0")
        held = self.folds == fold
        return (~held).nonzero()[0], held.nonzero()[0]


class LabelledBatch(NamedTuple):
    """Rows of a global batch.

    Attributes:
        input_ids: int32, (rows, length), padded to the smallest bucket that fits the whole global batch.
        lengths: tokens per row without padding, int32, (rows,).
        token_types: int32, (rows, length): 1 for the second text and the special tokens after it, if the model has
            token types.
        labels: (rows,): int64 indices into `names`, or float32 scores.
        epochs: epoch of each row, (rows,), from 0. A batch may span two epochs.
        indices: index of each row in the data, (rows,).
    """

    input_ids: Ids
    lengths: Ids
    token_types: Ids
    labels: npt.NDArray[Any]
    epochs: Integers
    indices: Integers

    @property
    def attention_mask(self) -> Flags:
        """True for tokens, False for padding, (rows, length)."""
        return length_mask(self.lengths, self.input_ids.shape[1])


class LabelledSampler:
    """Batches of labelled data by step, in the order of `Sampler`.

    Args:
        data: the rows.
        batch: rows of a global batch.
        seed: seed of the order.
        split: name of the order, e.g. `train` or `validation`.
        rows: which rows to use; by default all.
        drop_last: see `SampleOrder`.

    Attributes:
        samples: number of rows of an epoch.
        order: order of the rows.
        counts: see `LabelledDataset`; of all its rows.

    Raises:
        ConfigError: there are no rows, or a number is out of range.
    """

    def __init__(
        self,
        data: LabelledDataset,
        batch: int,
        seed: int,
        split: str,
        rows: Integers | None = None,
        drop_last: bool = False,
    ) -> None:
        self._data, self._rows, self.counts = data, np.arange(len(data)) if rows is None else rows, data.counts
        self._widths = np.array(sorted({*data.config.buckets, data.config.length}))
        self.order = SampleOrder(len(self._rows), batch, seed, split, drop_last).checked()
        self.samples = self.order.epoch_rows

    def batch(self, step: int, rank: int = 0, world: int = 1) -> LabelledBatch:
        """Return a rank's rows of a step's global batch.

        Raises:
            ConfigError: the batch is not divisible by `world`, or there is no such rank or step.
        """
        data, offsets = self._data, self._data.offsets
        global_batch = self._rows[self.order.rows(step)[1]]  # all ranks pad to its longest row
        longest = (offsets[global_batch + 1] - offsets[global_batch]).max()
        width = int(self._widths[np.searchsorted(self._widths, longest)])
        epochs, positions = self.order.rows(step, rank, world)
        indices = self._rows[positions]
        lengths = (offsets[indices + 1] - offsets[indices]).astype(np.int32)
        ids = np.full((len(indices), width), data.pad, np.int32)
        for row, index in enumerate(indices.tolist()):
            ids[row, : lengths[row]] = data.ids[offsets[index] : offsets[index + 1]]
        second = length_mask(lengths, width) & ~length_mask(lengths - data.seconds[indices], width)
        return LabelledBatch(ids, lengths, second.astype(np.int32), data.targets[indices], epochs, indices)


def encode_labelled(
    paths: Iterable[Path],
    tokenizer: TokenizerLike,
    config: LabelledConfig,
    task: LabelledTask,
    names: Sequence[str] = (),
) -> LabelledDataset:
    """Read and encode labelled data.

    Args:
        paths: files, see `read_labelled_rows`.
        tokenizer: a finished tokenizer.
        config: which columns hold texts and labels.
        task: `classify` or `regress`.
        names: the labels in the order of training; by default the labels found, sorted.

    Raises:
        ConfigError: a number is out of range, or a file does not exist.
        InputError: an unusable row, or a label that is not in `names`.
    """
    special = special_ids(tokenizer)
    _check(config, special)
    check_stratify(config, task)
    rows = [
        row
        for path in paths
        for row in _encode_rows(read_labelled_rows(path, config, task), tokenizer, special, config)
    ]
    targets, names = _targets(rows, names) if task == "classify" else (_scores(rows), ())
    return LabelledDataset(
        ids=_concatenate(*(row.ids for row in rows)),
        offsets=np.cumsum([0, *(len(row.ids) for row in rows)], dtype=np.int64),
        seconds=np.array([row.second for row in rows], np.int64),
        targets=targets,
        names=tuple(names),
        folds=_folds(rows, config, names),
        config=config,
        pad=special.pad,
        counts=_counts(rows),
    )


def fold_of(row: LabelledRow, config: LabelledConfig) -> int:
    """Return the fold of a row: from its fold column, or else from the XXH3 (64 bits) of its texts."""
    if config.fold:
        return row.number % config.folds
    return int(below(config.folds, np.array([hash_of_texts(row, config)], np.uint64))[0])


def hash_of_texts(row: LabelledRow, config: LabelledConfig) -> int:
    """Return the XXH3 (64 bits) of a row's text; of two texts, with U+001F between them."""
    texts = row.text + (_BETWEEN + row.pair if config.pair else "")
    return xxhash.xxh3_64_intdigest(texts.encode())


def _folds(rows: Sequence[_EncodedRow], config: LabelledConfig, names: Sequence[str]) -> Integers:
    if not config.stratify:
        return np.array([row.fold for row in rows], np.int64)
    strata = find_strata([row.label for row in rows], config, names)
    return assign_stratified_folds([row.text_hash for row in rows], strata, config.folds)


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct labels in order: by value if all are integers, else by code point."""
    names = set(labels)
    if all(name.removeprefix("-").isdecimal() and name.isascii() and len(name) < _LONG_INTEGER for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def truncate_longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how many tokens of two texts to keep: the longer one is truncated first, then both to halves.

    The same as `longest_first` of `tokenizers`.
    """
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (short, room - short) if first <= second else (room - short, short)


class _EncodedRow(NamedTuple):
    """A row's ids and properties, without its texts."""

    ids: Ids
    second: int
    fold: int
    text_hash: int
    label: str | float
    location: str
    truncated: bool
    empty: bool


def _encode_rows(
    rows: Iterator[LabelledRow], tokenizer: TokenizerLike, special: SpecialIds, config: LabelledConfig
) -> Iterator[_EncodedRow]:
    while block := list(islice(rows, _BLOCK)):
        firsts = _encode_texts(tokenizer, [row.text for row in block])
        seconds = _encode_texts(tokenizer, [row.pair for row in block]) if config.pair else repeat(None, len(block))
        for row, first, second in zip(block, firsts, seconds, strict=True):
            ids, type_ids = encode_row(first, second, special, config)
            fold = fold_of(row, config) if config.folds else 0
            text_hash = hash_of_texts(row, config) if config.stratify else 0
            whole = len(first) + (special.around if second is None else special.around_pair + len(second))
            yield _EncodedRow(ids, type_ids, fold, text_hash, row.label, row.location, len(ids) < whole, not len(first))


def _encode_texts(tokenizer: TokenizerLike, texts: Sequence[str]) -> list[Ids]:
    ids, offsets = tokenizer.encode_batch(texts)
    return np.split(ids, offsets[1:-1])


def encode_row(first: Ids, second: Ids | None, special: SpecialIds, config: LabelledConfig) -> tuple[Ids, int]:
    """Add special tokens to a row, and return its ids and how many of them have token type 1."""
    if second is None:
        first = first[: config.length - special.around]
        return _concatenate(special.before, first, special.after), 0
    one, two = truncate_longest_first(len(first), len(second), config.length - special.around_pair)
    joined = _concatenate(special.before, first[:one], special.between, second[:two], special.pair_after)
    return joined, two + len(special.pair_after) if special.types else 0


def _concatenate(*parts: Ids | tuple[int, ...]) -> Ids:
    return np.concatenate([np.zeros(0, np.int32), *(np.asarray(part, np.int32) for part in parts)])


def _targets(rows: Sequence[_EncodedRow], known: Sequence[str]) -> tuple[Integers, Sequence[str]]:
    names = known or sort_labels(str(row.label) for row in rows)
    indices = {name: index for index, name in enumerate(names)}
    for row in rows:
        if row.label not in indices:
            what = f"the label {row.label!r} did not occur in training"
            raise InputError(what, where=row.location, fix=suggest_name(str(row.label), names))
    return np.array([indices[str(row.label)] for row in rows], np.int64), names


def _scores(rows: Sequence[_EncodedRow]) -> npt.NDArray[np.float32]:
    return np.array([row.label for row in rows], np.float32)


def _counts(rows: Sequence[_EncodedRow]) -> dict[str, int]:
    truncated, empty = sum(row.truncated for row in rows), sum(row.empty for row in rows)
    return {"rows": len(rows), "truncated": truncated, "empty": empty}


def _check(config: LabelledConfig, special: SpecialIds) -> None:
    around = special.around_pair if config.pair else special.around
    if config.length <= around:
        what = f"a length of {config.length} leaves no room beside {around} special tokens"
        raise ConfigError(what, fix="e.g. length = 128")
    if config.buckets and not 0 < min(config.buckets) <= max(config.buckets) <= config.length:
        fix = f"use lengths from 1 to {config.length}"
        raise ConfigError("a bucket is longer than `length`, or less than 1", fix=fix)
    if config.columns and config.header:
        raise ConfigError(
            "both header and columns name the columns", where="train.labelled.columns", fix="header = false"
        )
    if config.folds < 0 or config.folds == 1 or (config.fold and not config.folds):
        raise ConfigError("folds must be 2 or more", fix="e.g. folds = 5; 0 for none")
