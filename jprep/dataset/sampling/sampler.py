"""From a step's number to its batch: a pure function, without a state to save. `docs/sampling.md` has the formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import TRAIN, WORD_START, read_dataset
from jprep.dataset.sampling.masking import IGNORE_INDEX, Flags, Ids, Masking
from jprep.dataset.sampling.sample_index import (
    LENGTH_BITS,
    Integers,
    Packing,
    Samples,
    SeparatorIds,
    SplitTokens,
    StreamSamples,
    open_sample_index,
)
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.random.counter_bits import key
from jprep.random.permutation import permuted

SAMPLE_INDEX_SUFFIX = ".samples"
"""Suffix of the lists of samples beside a split."""


class SamplerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which samples there are, and in which order.

    Attributes:
        batch: rows of a global batch.
        length: tokens of a row, special tokens among them.
        packing: `stream`, tokens cut every so many; `complete`, whole sentences; `line`, one paragraph a row.
        seed: of order and masks.
        split: `train` or `validation`.
        word_starts: whether batches say where words start.
    """

    batch: int
    length: int
    packing: Packing = "stream"
    seed: int = 1
    split: str = TRAIN
    word_starts: bool = False


class Batch(NamedTuple):
    """Some rows of a global batch.

    Attributes:
        input_ids: int32, (rows, length).
        labels: int32, (rows, length), `IGNORE_INDEX` where there is none. With masking, the original ids of the
            tokens to predict. Without, the tokens themselves but for each row's first, which nothing comes before: a
            model for causal language modelling shifts them by one.
        lengths: tokens of each row without its padding, int32, (rows,).
        word_starts: where words start, (rows, length); None if nobody asked.
        epochs: of each row, (rows,), from 0. A batch may lie across the end of one.
        indices: each row's sample, (rows,).
    """

    input_ids: Ids
    labels: Ids
    lengths: Ids
    word_starts: Flags | None
    epochs: Integers
    indices: Integers

    @property
    def attention_mask(self) -> Flags:
        """What is not padding, (rows, length)."""
        return length_mask(self.lengths, self.input_ids.shape[1])


def length_mask(lengths: Ids, columns: int) -> Flags:
    """What of rows is not padding, (rows, columns)."""
    flags: Flags = np.arange(columns) < lengths.reshape(-1, 1)
    return flags


class SampleOrder(NamedTuple):
    """The order of samples: each once an epoch, each epoch in another order.

    Attributes:
        samples: in an epoch.
        batch: rows of a global batch.
        seed: of the order.
        split: its name.
    """

    samples: int
    batch: int
    seed: int
    split: str

    def checked(self) -> SampleOrder:
        """Itself.

        Raises:
            ConfigError: there is nothing to put in order, or a number is out of its range.
        """
        if not self.samples:
            raise ConfigError("there is no sample in this split", where=self.split, fix="give it more data")
        if self.batch < 1:
            raise ConfigError("a batch has at least one row", fix="e.g. batch = 32")
        if not 0 <= self.seed < 1 << 63:
            raise ConfigError("a seed is from 0 to below 2**63", fix="e.g. seed = 1")
        return self

    def rows(self, step: int, rank: int = 0, world: int = 1) -> tuple[Integers, Integers]:
        """The epoch and the sample of each row that a rank takes of a step's global batch, each (batch / world,).

        Raises:
            ConfigError: the batch cannot be divided among so many, or there is no such rank or step.
        """
        if world < 1 or self.batch % world:
            fix = f"take a multiple of {world} as the batch"
            raise ConfigError(f"a batch of {self.batch} rows cannot be divided among {world}", fix=fix)
        if not 0 <= rank < world or step < 0:
            raise ConfigError(f"there is no step {step}, rank {rank} of {world}", fix="both count from 0")
        share = self.batch // world
        places = np.arange(rank * share, (rank + 1) * share) + step * self.batch
        epochs, positions = np.divmod(places, self.samples)
        return epochs, permuted(positions, self.samples, key(self.seed, self.split, epochs, "order"))


class SplitData(NamedTuple):
    """A split and what has to be known about it.

    Attributes:
        tokens: the split.
        separators: the ids that end documents and paragraphs.
        fingerprint: the dataset's.
        vocab_size: the dataset's.
        folder: where lists of samples go.
    """

    tokens: SplitTokens
    separators: SeparatorIds
    fingerprint: str
    vocab_size: int
    folder: Path


def open_split_data(folder: Path, split: str, lists: Path | None = None) -> SplitData:
    """Open a split of a finished dataset.

    Args:
        folder: the dataset.
        split: its name.
        lists: where lists of samples go; by default beside the split.

    Raises:
        ConfigError: there is no finished dataset, or no such split.
    """
    dataset = read_dataset(folder)
    names = [one.name for one in dataset.splits]
    if split not in names:
        raise ConfigError(f"there is no split {split!r}", where=str(folder), fix=f"there are: {', '.join(names)}")
    tokens = IndexedSplit(folder / split, dataset.dtype)
    separators = SeparatorIds(dataset.end, dataset.newline)
    return SplitData(tokens, separators, dataset.fingerprint, dataset.vocab_size, lists or folder)


class Sampler:
    """Batches of a split, by step: any of them at the same cost, whatever the size of the corpus. It can be pickled.

        config = SamplerConfig(batch=64, length=512, packing="complete")
        sampler = Sampler(source_of(folder, config.split), config, special_ids(tokenizer))
        batch = sampler.batch(step)

    Args:
        source: the split.
        config: which samples, in which order.
        special: the tokenizer's special ids.
        masking: hides tokens; without it labels are those of causal language modelling.

    Attributes:
        samples: in an epoch.
        order: their order.

    Raises:
        ConfigError: the length has no room, the split no sample, or the tokenizer is not the dataset's.
        MachineError: the list of samples cannot be written.
    """

    def __init__(
        self, source: SplitData, config: SamplerConfig, special: SpecialIds, masking: Masking | None = None
    ) -> None:
        self._arguments = source, config, special, masking
        if config.packing == "line" and not special.around:  # nothing else would say where a paragraph ends
            special = msgspec.structs.replace(special, after=(source.separators.end,))
        self._source, self._config, self._special, self._masking = source, config, special, masking
        self._tokens = np.asarray(source.tokens.tokens)
        self._found = self._packed(self._room())
        self.samples = len(self._found)
        self.order = SampleOrder(self.samples, config.batch, config.seed, config.split).checked()
        self._marked = config.word_starts or (masking is not None and masking.whole_word)

    def __reduce__(self) -> tuple[Any, ...]:
        return Sampler, self._arguments

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """The rows that a rank takes of a step's global batch.

        Args:
            step: from 0.
            rank: from 0 to below `world`.
            world: among how many the global batch is divided.

        Raises:
            ConfigError: the batch cannot be divided among so many, or there is no such rank or step.
        """
        epochs, indices = self.order.rows(step, rank, world)
        starts, sizes = self._found.spans(indices)
        ids, words = self._filled(starts, sizes)
        lengths = (sizes + self._special.around).astype(np.int32)
        if self._masking is None:
            labels = np.where(length_mask(lengths, ids.shape[1]), ids, np.int32(IGNORE_INDEX))
            labels[:, 0] = IGNORE_INDEX
            return Batch(ids, labels, lengths, words, epochs, indices)
        keys = key(self._config.seed, self._config.split, epochs, indices, "mask")
        masked = self._masking(ids, lengths, keys, words)
        return Batch(masked.ids, masked.labels, lengths, words, epochs, indices)

    def _room(self) -> int:
        """Tokens of text in a full row."""
        if self._special.vocab_size != self._source.vocab_size:
            found = f"{self._special.vocab_size} ids, and the dataset {self._source.vocab_size}"
            raise ConfigError(f"the tokenizer has {found}", fix="take the tokenizer that the dataset was packed with")
        room = self._config.length - self._special.around
        if room < 1:
            what = f"a length of {self._config.length} has no room beside {self._special.around} special tokens"
            raise ConfigError(what, fix="e.g. length = 512")
        return room

    def _packed(self, room: int) -> Samples:
        config, source = self._config, self._source
        if config.packing == "stream":
            return StreamSamples(len(self._tokens), room)
        if room >> LENGTH_BITS:
            fix = 'take a shorter length, or packing = "stream"'
            raise ConfigError(f"packing {config.packing!r} is for lengths below {1 << LENGTH_BITS}", fix=fix)
        stem = f"{config.split}.{config.packing}-{config.length}-{self._special.around}-{source.fingerprint}"
        name = stem + SAMPLE_INDEX_SUFFIX
        return open_sample_index(source.folder / name, source.tokens, config.packing, room, source.separators)

    def _filled(self, starts: Integers, sizes: Integers) -> tuple[Ids, Flags | None]:
        """Rows with their special tokens and padding, and where words start, each (rows, length)."""
        special, shape = self._special, (len(starts), self._config.length)
        ids = np.full(shape, special.pad, np.int32)
        words = np.zeros(shape, np.bool_) if self._marked else None
        first = len(special.before)
        ids[:, :first] = special.before
        for row, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
            ids[row, first : first + size] = self._tokens[start : start + size]
            if words is not None:
                words[row, first : first + size] = self._source.tokens.marks(start, start + size) & WORD_START
        self._source.tokens.release()
        for place, token in enumerate(special.after, first):
            ids[np.arange(len(starts)), sizes + place] = token
        return ids, words
