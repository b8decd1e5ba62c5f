"""Map a step's number to its batch: a pure function without state to save. `docs/sampling.md` has the formulas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import TRAIN, WORD_START, find_split, read_dataset
from jprep.dataset.mix import MixConfig
from jprep.dataset.sampling.config import Packing
from jprep.dataset.sampling.documents import drop_first_labels, number_documents
from jprep.dataset.sampling.masking import IGNORE_INDEX, Flags, Ids, Masking
from jprep.dataset.sampling.mixed_order import MixedOrder, share_of_batch
from jprep.dataset.sampling.open_samples import open_samples
from jprep.dataset.sampling.sample_index import Integers, RowPieces, Samples, SeparatorIds, SplitTokens
from jprep.dataset.sampling.sources import (
    SourceRange,
    source_ranges,
)
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.dataset.sampling.token_noise import UInt32Array, noise_keys
from jprep.errors import ConfigError
from jprep.random.counter_bits import UInt64Array, key
from jprep.random.permutation import permuted


class SamplerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which samples there are, and their order.

    Attributes:
        batch: rows of a global batch.
        length: tokens per row, including special tokens.
        packing: `stream`, consecutive tokens; `complete`, whole sentences; `line`, one paragraph per row; `best_fit`,
            documents that fill rows best.
        seed: seed of order and masks.
        split: `train` or `validation`.
        word_starts: whether batches include where words start.
        noise_keys: whether batches include random bits for tokens sampled from a model.
        documents: whether batches tell documents apart, whose first tokens then have no label.
        drop_last: see `SampleOrder`.
        mix: how the split's sources are mixed; None takes each row once per epoch.
    """

    batch: int
    length: int
    packing: Packing = "stream"
    seed: int = 1
    split: str = TRAIN
    word_starts: bool = False
    noise_keys: bool = False
    documents: bool = False
    drop_last: bool = False
    mix: MixConfig | None = None


class Batch(NamedTuple):
    """Rows of a global batch.

    Attributes:
        input_ids: int32, (rows, length).
        labels: int32, (rows, length), `IGNORE_INDEX` where there is no label. With masking, the original ids of the
            masked tokens. Without, the tokens themselves except each row's first: a causal language model shifts them
            by one.
        lengths: tokens per row without padding, int32, (rows,).
        word_starts: where words start, (rows, length); None unless requested.
        epochs: epoch of each row, (rows,), from 0. A batch may span two epochs. In a mixture, epochs of its source.
        indices: sample of each row, (rows,).
        segments: of sentence pairs, int32, (rows, length): 0 for the first segment with the tokens around it, and for
            padding; 1 for the second segment and the token after it. None for other rows.
        next_sentence: of sentence pairs, int32, (rows,): 0 if the second segment follows the first one in its document,
            1 if it is from another document. None for other rows.
        noise_keys: random bits for a token sampled at each position (`jprep.dataset.sampling.token_noise`), uint32,
            (rows, length); None unless requested.
        documents: number of the document that each token is part of, from 0 in each row, and `NO_DOCUMENT` for padding;
            int32, (rows, length). Special tokens around a row are part of its first and last document. None unless
            requested.
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
    documents: Ids | None = None

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
        return self.places(*share_of_batch(self.batch, step, rank, world))

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
        sources: the split's sources; empty unless they are to be mixed.
    """

    tokens: SplitTokens
    separators: SeparatorIds
    fingerprint: str
    vocab_size: int
    folder: Path
    sources: tuple[SourceRange, ...] = ()


def open_split_data(
    folder: Path, split: str, index_folder: Path | None = None, *, by_source: bool = False
) -> SplitData:
    """Open a split of a finished dataset.

    Args:
        folder: the dataset directory.
        split: name of the split.
        index_folder: directory for sample indices; by default beside the split.
        by_source: whether its sources are to be mixed.

    Raises:
        ConfigError: there is no finished dataset, or no such split.
        DamagedError: the sources of its parts cannot be told from the manifest.
    """
    dataset = read_dataset(folder)
    find_split(dataset, split, folder)
    tokens = IndexedSplit(folder / split, dataset.dtype)
    separators = SeparatorIds(dataset.end, dataset.newline)
    sources = source_ranges(dataset, split) if by_source else ()
    return SplitData(tokens, separators, dataset.fingerprint, dataset.vocab_size, index_folder or folder, sources)


class TextSampler(ABC):
    """Batches of packed text by step. Any batch takes the same time, whatever the size of the corpus.

    A sampler can be pickled.

    Args:
        source: the split.
        config: samples and their order.
        special: the special ids around samples.
        masking: masks tokens.
        samples: all samples of the split; with a mixture, divided by source.

    Attributes:
        samples: number of rows of an epoch.
        order: order of the samples.
        mixed: order of the samples of a mixture; None without one.

    Raises:
        ConfigError: the split has no sample, or a number is out of range.
    """

    def __init__(
        self,
        source: SplitData,
        config: SamplerConfig,
        special: SpecialIds,
        masking: Masking | None,
        samples: Samples,
    ) -> None:
        self._source, self._config, self._special, self._masking = source, config, special, masking
        self._samples = samples
        self.order = SampleOrder(len(samples), config.batch, config.seed, config.split, config.drop_last).checked()
        self.mixed = _mixed_order(config, source, samples)
        self.samples = self.mixed.epoch_rows if self.mixed else self.order.epoch_rows
        self._needs_word_starts = config.word_starts or (masking is not None and masking.whole_word)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source, self._config, self._special, self._masking)

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Return a rank's rows of a step's global batch.

        Args:
            step: step number, from 0.
            rank: from 0 to below `world`.
            world: number of ranks that share the global batch.

        Raises:
            ConfigError: the batch is not divisible by `world`, or there is no such rank or step.
        """
        return self.rows(*share_of_batch(self._config.batch, step, rank, world))

    def rows(self, start: int, stop: int) -> Batch:
        """Return rows `start` to before `stop`, counted from the first row of step 0."""
        return self._rows(*(self.mixed.rows(start, stop) if self.mixed else self.order.places(start, stop)))

    @abstractmethod
    def _rows(self, epochs: Integers, indices: Integers) -> Batch:
        """Return the rows of some samples in some epochs, both (rows,)."""


class Sampler(TextSampler):
    """Rows of running text.

        config = SamplerConfig(batch=64, length=512, packing="complete")
        sampler = Sampler(open_split_data(folder, config.split), config, special_ids(tokenizer))
        batch = sampler.batch(step)

    Args:
        source: the split.
        config: samples and their order.
        special: the tokenizer's special ids.
        masking: masks tokens; without it, labels are those of causal language modelling.

    Raises:
        ConfigError: `length` leaves no room for text, the split has no sample, or the tokenizer is not the dataset's.
        MachineError: the sample index cannot be written.
    """

    def __init__(
        self, source: SplitData, config: SamplerConfig, special: SpecialIds, masking: Masking | None = None
    ) -> None:
        check_vocabulary(source, special)
        if config.packing == "line" and not special.around:  # otherwise nothing marks the end of a paragraph
            special = msgspec.structs.replace(special, after=(source.separators.end,))
        super().__init__(source, config, special, masking, open_samples(source, config, special.around))
        self._tokens = np.asarray(source.tokens.tokens)

    def _rows(self, epochs: Integers, indices: Integers) -> Batch:
        pieces = self._samples.pieces(indices)
        sizes = np.bincount(pieces.rows, pieces.sizes, len(indices)).astype(np.int64)
        ids, words = self._build_rows(pieces, sizes)
        documents = self._documents(ids, sizes, pieces) if self._config.documents else None
        lengths = (sizes + self._special.around).astype(np.int32)
        if self._masking is None:
            labels = np.where(length_mask(lengths, ids.shape[1]), ids, np.int32(IGNORE_INDEX))
            labels[:, 0] = IGNORE_INDEX
            if documents is not None:
                drop_first_labels(labels, documents)
            return Batch(ids, labels, lengths, words, epochs, indices, documents=documents)
        keys = mask_keys(self._config, epochs, indices)
        masked = self._masking(ids, lengths, keys, words)
        noise = self._noise_keys(epochs, indices, ids.shape[1])
        return Batch(masked.ids, masked.labels, lengths, words, epochs, indices, noise_keys=noise, documents=documents)

    def _noise_keys(self, epochs: Integers, indices: Integers, columns: int) -> UInt32Array | None:
        config = self._config
        return noise_keys(config.seed, config.split, epochs, indices, columns) if config.noise_keys else None

    def _documents(self, ids: Ids, sizes: Integers, pieces: RowPieces) -> Ids:
        before, after, end = len(self._special.before), len(self._special.after), self._source.separators.end
        return number_documents(ids, end, sizes, before, after, pieces.placed(before)[:2])

    def _build_rows(self, pieces: RowPieces, sizes: Integers) -> tuple[Ids, Flags | None]:
        """Return rows with special tokens and padding, and where words start, each (rows, length)."""
        special, shape = self._special, (len(sizes), self._config.length)
        ids = np.full(shape, special.pad, np.int32)
        words = np.zeros(shape, np.bool_) if self._needs_word_starts else None
        first = len(special.before)
        ids[:, :first] = special.before
        for row, column, start, size in zip(*(part.tolist() for part in pieces.placed(first)), strict=True):
            ids[row, column : column + size] = self._tokens[start : start + size]
            if words is not None:
                words[row, column : column + size] = self._source.tokens.marks(start, start + size) & WORD_START
        self._source.tokens.release()
        for column, token in enumerate(special.after, first):
            ids[np.arange(len(sizes)), sizes + column] = token
        return ids, words


def check_vocabulary(source: SplitData, special: SpecialIds) -> None:
    """Check that a tokenizer has the ids of a dataset.

    Raises:
        ConfigError: it has another number of ids.
    """
    if special.vocab_size != source.vocab_size:
        found = f"{special.vocab_size} ids, the dataset {source.vocab_size}"
        raise ConfigError(f"the tokenizer has {found}", fix="use the tokenizer that the dataset was packed with")


def _mixed_order(config: SamplerConfig, source: SplitData, samples: Samples) -> MixedOrder | None:
    if config.mix is None:
        return None
    if config.drop_last:
        what = "drop_last cannot be combined with dataset.mix, in which every source has epochs of its own"
        raise ConfigError(what, where="train.drop_last", fix="drop_last = false")
    return MixedOrder(config.mix, source.sources, samples, config.batch, config.seed, config.split)
