"""Labelled data for `classify` and `regress`: rows to ids, folds, and batches in the sampler's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from jprep.dataset.labelled.reader import LabelledConfig, LabelledRow, LabelledTask, read_labelled_rows
from jprep.dataset.sampling.masking import Flags, Ids
from jprep.dataset.sampling.sample_index import Integers
from jprep.dataset.sampling.sampler import SampleOrder, length_mask
from jprep.dataset.sampling.special_ids import SpecialIds, VocabularyLike, special_ids
from jprep.errors import ConfigError, InputError
from jprep.plugins.references import suggest_name
from jprep.random.counter_bits import below

_BLOCK = 1024  # rows encoded at a time
_BETWEEN = "\x1f"


class TokenizerLike(VocabularyLike, Protocol):
    """What is needed of a tokenizer; `jprep.load_tokenizer` gives one."""

    def encode_batch(self, texts: Sequence[str]) -> tuple[Ids, Integers]:
        """The ids of texts one behind the other, and where each begins and the last one ends."""


class LabelledDataset(NamedTuple):
    """Rows, encoded.

    Attributes:
        ids: int32, of all rows one behind the other, special tokens among them.
        offsets: int64, (rows + 1,): row i is `ids[offsets[i]:offsets[i + 1]]`.
        seconds: how many ids of each row belong to its second text, and what is after it; (rows,), all 0 where
            the model does not tell.
        targets: (rows,): int64, places in `names`; or float32 scores.
        names: the labels in order; none for scores.
        folds: of each row, (rows,); all 0 without folds.
        config: how the rows were made.
        pad: the id that fills rows up.
        counts: rows, and how many of them were cut (`truncated`) or hold no text (`empty`).
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
        """The rows to train on when a fold is held out, and the fold's rows.

        Raises:
            ConfigError: there is no such fold.
        """
        if not 0 <= fold < self.config.folds:
            raise ConfigError(f"there is no fold {fold}", fix=f"folds = {self.config.folds}, counted from 0")
        held = self.folds == fold
        return (~held).nonzero()[0], held.nonzero()[0]


class LabelledBatch(NamedTuple):
    """Some rows of a global batch.

    Attributes:
        input_ids: int32, (rows, length); the length is that of the smallest bucket for the whole global batch.
        lengths: of each row without its padding, int32, (rows,).
        token_types: int32, (rows, length): 1 at the second text and what is after it, if the model tells.
        labels: (rows,): int64, places in `names`; or float32 scores.
        epochs: of each row, (rows,), from 0. A batch may lie across the end of one.
        indices: each row's number in the data, (rows,).
    """

    input_ids: Ids
    lengths: Ids
    token_types: Ids
    labels: npt.NDArray[Any]
    epochs: Integers
    indices: Integers

    @property
    def attention_mask(self) -> Flags:
        """What is not padding, (rows, length)."""
        return length_mask(self.lengths, self.input_ids.shape[1])


class LabelledSampler:
    """Batches of labelled data, by step, in the order of `Sampler`.

    Args:
        data: the rows.
        batch: rows of a global batch.
        seed: of the order.
        split: names the order, e.g. `train` or `validation`.
        rows: which rows; by default all.

    Attributes:
        samples: in an epoch.
        order: their order.

    Raises:
        ConfigError: there is no row, or a number is out of its range.
    """

    def __init__(self, data: LabelledDataset, batch: int, seed: int, split: str, rows: Integers | None = None) -> None:
        self._data, self._rows = data, np.arange(len(data)) if rows is None else rows
        self._widths = np.array(sorted({*data.config.buckets, data.config.length}))
        self.samples = len(self._rows)
        self.order = SampleOrder(self.samples, batch, seed, split).checked()

    def batch(self, step: int, rank: int = 0, world: int = 1) -> LabelledBatch:
        """The rows that a rank takes of a step's global batch.

        Raises:
            ConfigError: the batch cannot be divided among so many, or there is no such rank or step.
        """
        data, offsets = self._data, self._data.offsets
        everyone = self._rows[self.order.rows(step)[1]]  # whose longest row all ranks agree on
        longest = (offsets[everyone + 1] - offsets[everyone]).max()
        width = int(self._widths[np.searchsorted(self._widths, longest)])
        epochs, places = self.order.rows(step, rank, world)
        indices = self._rows[places]
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
    """Read labelled data and encode it.

    Args:
        paths: files, see `read_labelled_rows`.
        tokenizer: a finished tokenizer.
        config: which columns are what.
        task: `classify` or `regress`.
        names: the labels in order, as training found them; by default those that are found, in sorted order.

    Raises:
        ConfigError: a number is out of its range, or there is no such file.
        InputError: a row that cannot be used, or a label that is not among `names`.
    """
    special = special_ids(tokenizer)
    _check(config, special)
    rows = [
        row for path in paths for row in _encoded(read_labelled_rows(path, config, task), tokenizer, special, config)
    ]
    targets, names = _targets(rows, names) if task == "classify" else (_scores(rows), ())
    counts = {
        "rows": len(rows),
        "truncated": sum(row.truncated for row in rows),
        "empty": sum(row.empty for row in rows),
    }
    return LabelledDataset(
        ids=_chain(*(row.ids for row in rows)),
        offsets=np.cumsum([0, *(len(row.ids) for row in rows)], dtype=np.int64),
        seconds=np.array([row.second for row in rows], np.int64),
        targets=targets,
        names=tuple(names),
        folds=np.array([row.fold for row in rows], np.int64),
        config=config,
        pad=special.pad,
        counts=counts,
    )


def fold_of(row: LabelledRow, config: LabelledConfig) -> int:
    """The fold of a row: by its column's integer, or else by the XXH3 (64 bits) of its texts."""
    if config.fold:
        return row.number % config.folds
    texts = row.text + (_BETWEEN + row.pair if config.pair else "")
    word = np.array([xxhash.xxh3_64_intdigest(texts.encode())], np.uint64)
    return int(below(config.folds, word)[0])


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once, in order: by value where all are whole numbers, else by code points."""
    names = set(labels)
    if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def truncate_longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of two texts are kept: the longer one is cut first, then both to halves.

    It is what `tokenizers` does under `longest_first`.
    """
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (short, room - short) if first <= second else (room - short, short)


class _Encoded(NamedTuple):
    """A row's ids, and what else is known of it, but not its texts."""

    ids: Ids
    second: int
    fold: int
    label: str | float
    place: str
    truncated: bool
    empty: bool


def _encoded(
    rows: Iterator[LabelledRow], tokenizer: TokenizerLike, special: SpecialIds, config: LabelledConfig
) -> Iterator[_Encoded]:
    while block := list(islice(rows, _BLOCK)):
        firsts = _split(tokenizer, [row.text for row in block])
        seconds = _split(tokenizer, [row.pair for row in block]) if config.pair else repeat(None, len(block))
        for row, first, second in zip(block, firsts, seconds, strict=True):
            ids, told = encode_row(first, second, special, config)
            fold = fold_of(row, config) if config.folds else 0
            whole = len(first) + (special.around if second is None else special.around_pair + len(second))
            yield _Encoded(ids, told, fold, row.label, row.place, len(ids) < whole, not len(first))


def _split(tokenizer: TokenizerLike, texts: Sequence[str]) -> list[Ids]:
    ids, offsets = tokenizer.encode_batch(texts)
    return np.split(ids, offsets[1:-1])


def encode_row(first: Ids, second: Ids | None, special: SpecialIds, config: LabelledConfig) -> tuple[Ids, int]:
    """A row with its special tokens, and how many of its ids the second text makes up, if the model tells."""
    if second is None:
        first = first[: config.length - special.around]
        return _chain(special.before, first, special.after), 0
    one, two = truncate_longest_first(len(first), len(second), config.length - special.around_pair)
    joined = _chain(special.before, first[:one], special.between, second[:two], special.pair_after)
    return joined, two + len(special.pair_after) if special.types else 0


def _chain(*parts: Ids | tuple[int, ...]) -> Ids:
    return np.concatenate([np.zeros(0, np.int32), *(np.asarray(part, np.int32) for part in parts)])


def _targets(rows: Sequence[_Encoded], known: Sequence[str]) -> tuple[Integers, Sequence[str]]:
    names = known or sort_labels(str(row.label) for row in rows)
    places = {name: place for place, name in enumerate(names)}
    for row in rows:
        if row.label not in places:
            what = f"the label {row.label!r} was not there in training"
            raise InputError(what, where=row.place, fix=suggest_name(str(row.label), names))
    return np.array([places[str(row.label)] for row in rows], np.int64), names


def _scores(rows: Sequence[_Encoded]) -> npt.NDArray[np.float32]:
    return np.array([row.label for row in rows], np.float32)


def _check(config: LabelledConfig, special: SpecialIds) -> None:
    around = special.around_pair if config.pair else special.around
    if config.length <= around:
        what = f"a length of {config.length} has no room beside {around} special tokens"
        raise ConfigError(what, fix="e.g. length = 128")
    if config.buckets and not 0 < min(config.buckets) <= max(config.buckets) <= config.length:
        fix = f"give lengths from 1 to {config.length}"
        raise ConfigError("a bucket is longer than `length`, or empty", fix=fix)
    if config.folds < 0 or config.folds == 1 or (config.fold and not config.folds):
        raise ConfigError("folds are two or more", fix="e.g. folds = 5; 0 for none")
