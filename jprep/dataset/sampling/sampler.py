"""Map a step's number to its batch: a pure function without state to save. `docs/sampling.md` has the formulas."""

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
from jprep.dataset.sampling.token_noise import UInt32Array, noise_keys
from jprep.errors import ConfigError
from jprep.random.counter_bits import UInt64Array, key
from jprep.random.permutation import permuted

SAMPLE_INDEX_SUFFIX = ".samples"
"""Suffix of the sample indices beside a split."""


class SamplerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which samples there are, and their order.

    Attributes:
        batch: rows of a global batch.
        length: tokens per row, including special tokens.
        packing: `stream`, consecutive tokens; `complete`, whole sentences; `line`, one paragraph per row.
        seed: seed of order and masks.
        split: `train` or `validation`.
        word_starts: whether batches include where words start.
        noise_keys: whether batches include random bits for tokens sampled from a model.
        drop_last: see `SampleOrder`.
    """

    batch: int
    length: int
    packing: Packing = "stream"
    seed: int = 1
    split: str = TRAIN
    word_starts: bool = False
    noise_keys: bool = False
    drop_last: bool = False


class Batch(NamedTuple):
    """Rows of a global batch.

    Attributes:
        input_ids: int32, (rows, length).
        labels: int32, (rows, length), `IGNORE_INDEX` where there is no label. With masking, the original ids of the
            masked tokens. Without, the tokens themselves except each row's first: a causal language model shifts them
            by one.
        lengths: tokens per row without padding, int32, (rows,).
        word_starts: where words start, (rows, length); None unless requested.
        epochs: epoch of each row, (rows,), from 0. A batch may span two epochs.
        indices: sample of each row, (rows,).
        segments: of sentence pairs, int32, (rows, length): 0 for the first segment with the tokens around it, and for
            padding; 1 for the second segment and the token after it. None for other rows.
        next_sentence: of sentence pairs, int32, (rows,): 0 if the second segment follows the first one in its document,
            1 if it is from another document. None for other rows.
        noise_keys: random bits for a token sampled at each position (`jprep.dataset.sampling.token_noise`), uint32,
            (rows, length); None unless requested.
    """

    input_ids: Ids
    labels: Ids
    lengths: Ids
    word_starts: Flags | None
    epochs: Integers
    indices: Integers
    segments: Ids | None = None
    next_sentence: Ids | None = None
    noise_keys: UInt32Array | None = None

    @property
    def attention_mask(self) -> Flags:
        """True for tokens, False for padding, (rows, length)."""
        return length_mask(self.lengths, self.input_ids.shape[1])


def length_mask(lengths: Ids, columns: int) -> Flags:
    """Return True for the first `lengths[row]` columns of each row, (rows, columns)."""
    flags: Flags = np.arange(columns) < lengths.reshape(-1, 1)
    return flags


class SampleOrder(NamedTuple):
    """The order of samples: each once per epoch, in a different order each epoch.

    Attributes:
        samples: number of samples.
        batch: rows of a global batch.
        seed: seed of the order.
        split: name of the split.
        drop_last: whether an epoch ends with its last complete batch: the samples of the incomplete one, which are
            others in each epoch, are left out. Otherwise a batch may span two epochs.
    """

    samples: int
    batch: int
    seed: int
    split: str
    drop_last: bool = False

    @property
    def epoch_rows(self) -> int:
        """Number of rows of an epoch."""
        return self.samples - self.samples % self.batch if self.drop_last else self.samples

    def checked(self) -> SampleOrder:
        """Validate the values and return the order itself.

        Raises:
            ConfigError: there are no samples, or a number is out of range.
        """
        if not self.samples:
            raise ConfigError("this split has no samples", where=self.split, fix="add data to it")
        if self.batch < 1:
            raise ConfigError("a batch must have at least one row", fix="e.g. batch = 32")
        if not self.epoch_rows:
            what = f"drop_last leaves no row: {self.samples} rows are less than a batch of {self.batch}"
            raise ConfigError(what, where=self.split, fix="use a smaller batch, or drop_last = false")
        if not 0 <= self.seed < 1 << 63:
            raise ConfigError("the seed must be from 0 to below 2**63", fix="e.g. seed = 1")
        return self

    def rows(self, step: int, rank: int = 0, world: int = 1) -> tuple[Integers, Integers]:
        """Return epoch and sample of each row of a rank's share of a step's global batch, each (batch / world,).

        Raises:
            ConfigError: the batch is not divisible by `world`, or there is no such rank or step.
        """
        if world < 1 or self.batch % world:
            fix = f"use a multiple of {world} as the batch size"
            raise ConfigError(f"a batch of {self.batch} rows cannot be divided among {world} ranks", fix=fix)
        if not 0 <= rank < world or step < 0:
            raise ConfigError(f"step {step}, rank {rank} of {world} does not exist", fix="both are counted from 0")
        share = self.batch // world
        return self.places(step * self.batch + rank * share, step * self.batch + (rank + 1) * share)

    def places(self, start: int, stop: int) -> tuple[Integers, Integers]:
        """Return epoch and sample of rows `start` to before `stop`, counted from the first row of step 0."""
        epochs, positions = np.divmod(np.arange(start, stop), self.epoch_rows)
        return epochs, self.samples_at(epochs, positions)

    def samples_at(self, epochs: Integers | int, positions: Integers) -> Integers:
        """Return the samples at positions of the order of one epoch, or of one epoch each."""
        return permuted(positions, self.samples, key(self.seed, self.split, epochs, "order"))


def mask_keys(config: SamplerConfig, epochs: Integers, indices: Integers) -> UInt64Array:
    """Return the keys of the masks of some rows, (rows,)."""
    return key(config.seed, config.split, epochs, indices, "mask")


class SplitData(NamedTuple):
    """A split with the properties of its dataset that the sampler needs.

    Attributes:
        tokens: the split.
        separators: ids that end documents and paragraphs.
        fingerprint: fingerprint of the dataset.
        vocab_size: vocabulary size of the dataset.
        folder: directory of sample indices.
    """

    tokens: SplitTokens
    separators: SeparatorIds
    fingerprint: str
    vocab_size: int
    folder: Path


def open_split_data(folder: Path, split: str, index_folder: Path | None = None) -> SplitData:
    """Open a split of a finished dataset.

    Args:
        folder: the dataset directory.
        split: name of the split.
        index_folder: directory for sample indices; by default beside the split.

    Raises:
        ConfigError: there is no finished dataset, or no such split.
    """
    dataset = read_dataset(folder)
    names = [one.name for one in dataset.splits]
    if split not in names:
        raise ConfigError(
            f"this dataset has no split {split!r}", where=str(folder), fix=f"available splits: {', '.join(names)}"
        )
    tokens = IndexedSplit(folder / split, dataset.dtype)
    separators = SeparatorIds(dataset.end, dataset.newline)
    return SplitData(tokens, separators, dataset.fingerprint, dataset.vocab_size, index_folder or folder)


class Sampler:
    """Batches of a split by step. Any batch takes the same time, whatever the size of the corpus. It can be pickled.

        config = SamplerConfig(batch=64, length=512, packing="complete")
        sampler = Sampler(open_split_data(folder, config.split), config, special_ids(tokenizer))
        batch = sampler.batch(step)

    Args:
        source: the split.
        config: samples and their order.
        special: the tokenizer's special ids.
        masking: masks tokens; without it, labels are those of causal language modelling.

    Attributes:
        samples: number of rows of an epoch.
        order: order of the samples.

    Raises:
        ConfigError: `length` leaves no room for text, the split has no sample, or the tokenizer is not the dataset's.
        MachineError: the sample index cannot be written.
    """

    def __init__(
        self, source: SplitData, config: SamplerConfig, special: SpecialIds, masking: Masking | None = None
    ) -> None:
        self._arguments = source, config, special, masking
        if config.packing == "line" and not special.around:  # otherwise nothing marks the end of a paragraph
            special = msgspec.structs.replace(special, after=(source.separators.end,))
        self._source, self._config, self._special, self._masking = source, config, special, masking
        self._tokens = np.asarray(source.tokens.tokens)
        self._samples = self._open_samples(self._text_length())
        self.order = SampleOrder(
            len(self._samples), config.batch, config.seed, config.split, config.drop_last
        ).checked()
        self.samples = self.order.epoch_rows
        self._needs_word_starts = config.word_starts or (masking is not None and masking.whole_word)

    def __reduce__(self) -> tuple[Any, ...]:
        return Sampler, self._arguments

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Return a rank's rows of a step's global batch.

        Args:
            step: step number, from 0.
            rank: from 0 to below `world`.
            world: number of ranks that share the global batch.

        Raises:
            ConfigError: the batch is not divisible by `world`, or there is no such rank or step.
        """
        return self._rows(*self.order.rows(step, rank, world))

    def rows(self, start: int, stop: int) -> Batch:
        """Return rows `start` to before `stop`, counted from the first row of step 0."""
        return self._rows(*self.order.places(start, stop))

    def _rows(self, epochs: Integers, indices: Integers) -> Batch:
        starts, sizes = self._samples.spans(indices)
        ids, words = self._build_rows(starts, sizes)
        lengths = (sizes + self._special.around).astype(np.int32)
        if self._masking is None:
            labels = np.where(length_mask(lengths, ids.shape[1]), ids, np.int32(IGNORE_INDEX))
            labels[:, 0] = IGNORE_INDEX
            return Batch(ids, labels, lengths, words, epochs, indices)
        keys = mask_keys(self._config, epochs, indices)
        masked = self._masking(ids, lengths, keys, words)
        noise = self._noise_keys(epochs, indices, ids.shape[1])
        return Batch(masked.ids, masked.labels, lengths, words, epochs, indices, noise_keys=noise)

    def _noise_keys(self, epochs: Integers, indices: Integers, columns: int) -> UInt32Array | None:
        config = self._config
        return noise_keys(config.seed, config.split, epochs, indices, columns) if config.noise_keys else None

    def _text_length(self) -> int:
        """Return the tokens of text in a full row."""
        if self._special.vocab_size != self._source.vocab_size:
            found = f"{self._special.vocab_size} ids, the dataset {self._source.vocab_size}"
            raise ConfigError(f"the tokenizer has {found}", fix="use the tokenizer that the dataset was packed with")
        room = self._config.length - self._special.around
        if room < 1:
            what = f"a length of {self._config.length} leaves no room beside {self._special.around} special tokens"
            raise ConfigError(what, fix="e.g. length = 512")
        return room

    def _open_samples(self, length: int) -> Samples:
        config, source = self._config, self._source
        if config.packing == "stream":
            return StreamSamples(len(self._tokens), length)
        if length >> LENGTH_BITS:
            fix = 'use a shorter length, or packing = "stream"'
            raise ConfigError(f"packing {config.packing!r} requires a length below {1 << LENGTH_BITS}", fix=fix)
        stem = f"{config.split}.{config.packing}-{config.length}-{self._special.around}-{source.fingerprint}"
        name = stem + SAMPLE_INDEX_SUFFIX
        return open_sample_index(source.folder / name, source.tokens, config.packing, length, source.separators)

    def _build_rows(self, starts: Integers, sizes: Integers) -> tuple[Ids, Flags | None]:
        """Return rows with special tokens and padding, and where words start, each (rows, length)."""
        special, shape = self._special, (len(starts), self._config.length)
        ids = np.full(shape, special.pad, np.int32)
        words = np.zeros(shape, np.bool_) if self._needs_word_starts else None
        first = len(special.before)
        ids[:, :first] = special.before
        for row, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
            ids[row, first : first + size] = self._tokens[start : start + size]
            if words is not None:
                words[row, first : first + size] = self._source.tokens.marks(start, start + size) & WORD_START
        self._source.tokens.release()
        for column, token in enumerate(special.after, first):
            ids[np.arange(len(starts)), sizes + column] = token
        return ids, words
