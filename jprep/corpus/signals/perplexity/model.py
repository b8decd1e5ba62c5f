"""A character n-gram model in hashed tables, smoothed by interpolated absolute discounting."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jprep.batching import batches_of
from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.errors import ConfigError, InputError
from jprep.io.atomic import atomic_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = 1
_DISCOUNT = 0.75
_CODE_POINTS = 0x110000
_CHARS = 1 << 20  # characters that are counted at a time
_MOST = (1 << 32) - 1  # characters: the largest count
_LINE_FEED = 10
_FIXED = 1 << 20  # bits are summed as integers of this unit: the sum is the same on every machine
_ORDERS, _BITS = range(1, 7), range(4, 29)
_STEP, _GRAM = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class Counts(NamedTuple):
    """Counts of one order, by hash; what shares a hash shares a count.

    Attributes:
        grams: occurrences of n-grams, uint32.
        contexts: occurrences of what stands before their last characters, uint32.
        followers: different characters after each context, uint32.
    """

    grams: NDArray[np.uint32]
    contexts: NDArray[np.uint32]
    followers: NDArray[np.uint32]


class PerplexityModel:
    """A character n-gram model. Its memory is 12 · 2**bits bytes for each order, whatever it was trained on.

    Args:
        order: characters of the longest n-grams, 1 to 6.
        bits: base-2 logarithm of the size of each table, 4 to 28.

    Raises:
        ConfigError: an argument is out of its range.
    """

    def __init__(self, order: int = 4, bits: int = 22) -> None:
        if order not in _ORDERS or bits not in _BITS:
            what = f"no n-gram model of order {order} with {bits} bits"
            raise ConfigError(what, where="perplexity model", fix="an order of 1 to 6, and 4 to 28 bits")
        self.order, self.bits = order, bits
        self.counts = [Counts(*np.zeros((3, 1 << bits), np.uint32)) for _ in range(order)]

    def train(self, texts: Iterable[str]) -> None:
        """Count the n-grams of texts.

        Raises:
            ConfigError: there are more characters than can be counted, 2**32 - 1.
        """
        for batch in _batches(texts):
            if int(self.counts[0].contexts[0]) + len(batch.codes) > _MOST:  # all single characters share a context
                what = f"a perplexity model counts at most {_MOST:,} characters"
                raise ConfigError(what, where="perplexity model", fix="train it on a sample of the texts")
            counted = _characters(batch)
            for counts, (contexts, grams) in zip(self.counts, self._places(batch), strict=True):
                _count(counts, contexts[counted], grams[counted])

    def bits_per_character(self, batch: TextBatch) -> NDArray[np.float64]:
        """Return the cross-entropy of each text in bits per character, shape [documents]; NaN for an empty text."""
        chances = np.full(len(batch.codes), 1 / _CODE_POINTS)
        for counts, (contexts, grams) in zip(self.counts, self._places(batch), strict=True):
            seen = counts.contexts[contexts].astype(np.float64)
            kept = np.maximum(counts.grams[grams] - _DISCOUNT, 0)
            lower = _DISCOUNT * np.maximum(counts.followers[contexts], 1) * chances  # 0 if its n-grams share hashes
            chances = np.where(seen > 0, np.minimum((kept + lower) / np.maximum(seen, 1), 1), chances)
        fixed = np.rint(-_log2(chances) * _FIXED).astype(np.int64)
        fixed[~_characters(batch)] = 0
        sums = np.add.reduceat(fixed, batch.starts[:-1]) if len(batch.docs) else fixed
        with np.errstate(invalid="ignore"):
            bits: NDArray[np.float64] = sums / _FIXED / np.where(batch.lengths > 0, batch.lengths, np.nan)
        return bits

    def _places(self, batch: TextBatch) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
        """Yield, for each order, the places of the context and of the n-gram that ends at each code point."""
        codes, shift = batch.codes.astype(np.uint64), np.uint64(64 - self.bits)
        last = codes * _GRAM
        context = np.zeros_like(codes)
        for back in range(self.order):
            if back:
                before = np.concatenate([np.full(back, _LINE_FEED, np.uint64), codes[:-back]])[: len(codes)]
                for offset in range(back):
                    at = batch.starts[:-1] + offset
                    before[at[at < len(codes)]] = _LINE_FEED
                context = (context + before + np.uint64(1)) * _STEP
                context ^= context >> np.uint64(29)
            yield (context * _STEP) >> shift, ((context ^ last) * _STEP) >> shift

    def write(self, path: Path) -> None:
        """Write the model as an .npz file."""
        arrays = {
            f"{name}_{order}": values
            for order, counts in enumerate(self.counts, 1)
            for name, values in counts._asdict().items()
        }
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, format=np.array([_FORMAT, self.order, self.bits]), **arrays)


def read_model(path: Path) -> PerplexityModel:
    """Read a model.

    Raises:
        InputError: the file is not such a model.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            version, order, bits = _read_array(archive, "format", np.dtype(np.int64), 3).tolist()
            if version != _FORMAT:
                raise ValueError(f"format {version}")
            model = PerplexityModel(order, bits)
            for counts, number in zip(model.counts, range(1, order + 1), strict=True):
                for name, values in counts._asdict().items():
                    values[:] = _read_array(archive, f"{name}_{number}", values.dtype, len(values))
    except Exception as error:  # damaged archives and arrays raise errors of a dozen kinds
        what = f"{path}: not a perplexity model: {error}"
        raise InputError(what, where="signal 'perplexity'", fix="train it again") from error
    return model


def _read_array(archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    """Read an array of known type and size; what the file claims to hold is never allocated."""
    with archive.open(f"{name}.npy") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name}: another version of arrays")
        found = np.lib.format.read_array_header_1_0(file)
        if found != ((size,), False, dtype):
            raise ValueError(f"{name}: expected {size} numbers of type {dtype}")
        data = file.read(size * dtype.itemsize + 1)  # one more, so that the end and its checksum are reached
    if len(data) != size * dtype.itemsize:
        raise ValueError(f"{name}: {len(data)} bytes instead of {size * dtype.itemsize}")
    return np.frombuffer(data, dtype)


def _batches(texts: Iterable[str]) -> Iterator[TextBatch]:
    documents = (Document(id="", source="", title="", url="", text=text) for text in texts)
    return map(TextBatch, batches_of(documents, _CHARS, lambda doc: len(doc.text)))


def _characters(batch: TextBatch) -> NDArray[np.bool_]:
    """Return whether each code point belongs to a text; the line feeds after the texts do not."""
    inside = np.ones(len(batch.codes), bool)
    inside[batch.starts[1:] - 1] = False
    return inside


def _count(counts: Counts, contexts: NDArray[np.uint64], grams: NDArray[np.uint64]) -> None:
    found, first, times = np.unique(grams, return_index=True, return_counts=True)
    new = first[counts.grams[found] == 0]
    np.add.at(counts.followers, contexts[new], np.uint32(1))
    np.add.at(counts.contexts, contexts, np.uint32(1))
    counts.grams[found] += times.astype(np.uint32)


def _log2(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm to 7 digits, by operations whose results are the same on every machine."""
    mantissa, exponent = np.frexp(values)
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for odd in range(13, 0, -2):
        series = series * square + 1 / odd
    logarithms: NDArray[np.float64] = exponent + 2 / 0.6931471805599453 * ratio * series
    return logarithms
