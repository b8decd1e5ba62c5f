"""A trained quality classifier: a directory with `weights.npy` and `quality.json`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from jprep.corpus.quality.ngrams import NgramConfig, count_ngrams, hash_ngrams
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.portable_math import exp_of_negative
from jprep.engine import manifest
from jprep.errors import DamagedError
from jprep.io.verified_files import read_verified

if TYPE_CHECKING:
    from numpy.typing import NDArray

CARD, WEIGHTS = "quality.json", "weights.npy"
TRAIN_AGAIN = "train it again with --restart"
HIGHEST = np.iinfo(np.int16).max


class QualityCard(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a quality classifier, `quality.json`.

    Attributes:
        jprep: version of jprep that trained it.
        fingerprint: hash of `made_from`.
        made_from: options, versions, and the hashes of the inputs.
        ngrams: the features.
        scale: what one unit of a weight adds to the mean.
        slope, offset: the score is the logistic function of slope · mean + offset.
        documents: number of documents in each part (`train`, `calibration`, `test`), by class.
        rejects: rows and lines of the inputs without a document, by class, then by step and reason.
        figures: accuracy, AUC and calibration on the part `test`.
        weights_sha256: hash of `weights.npy`.
    """

    jprep: str
    fingerprint: str
    made_from: dict[str, Any]
    ngrams: NgramConfig
    scale: float
    slope: float
    offset: float
    documents: dict[str, dict[str, int]]
    rejects: dict[str, dict[str, int]] = {}
    figures: dict[str, float]
    weights_sha256: str


class QualityModel(msgspec.Struct, frozen=True):
    """A quality classifier.

    Attributes:
        card: its manifest.
        weights: the weight of each bucket, int16, shape [2 ** bits].
    """

    card: QualityCard
    weights: NDArray[np.int16]

    def score(self, batch: TextBatch) -> NDArray[np.float64]:
        """Return the score of each text from 0 to 1, shape [documents]; NaN for an empty text.

        Sums are of integers, so a score depends neither on the batch nor on the order of additions.
        """
        means = mean_weights(batch, self.weights, self.card.ngrams) * self.card.scale
        return logistic(self.card.slope * means + self.card.offset)


def mean_weights(batch: TextBatch, weights: NDArray[Any], config: NgramConfig) -> NDArray[np.float64]:
    """Return the mean weight of the n-grams of each text, shape [documents]; NaN for an empty text."""
    kind = np.int32 if weights.dtype == np.int16 else np.float64
    values = np.empty(len(batch.codes), kind)
    for block in hash_ngrams(batch.codes, batch.starts[1:], config):
        own = values[block.start : block.start + len(block.buckets[0])]
        own[:] = 0
        for buckets, crossing in zip(block.buckets, block.crossing, strict=True):
            taken = weights.take(buckets)
            taken[crossing] = 0
            np.add(own, taken, out=own)
    sums = np.add.reduceat(values, batch.starts[:-1], dtype=_wide(kind)) if len(batch) else np.zeros(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(batch.lengths > 0, sums / count_ngrams(batch.lengths, config), np.nan)


def logistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nearly 1 / (1 + exp(-x)) of each value, the same on every machine."""
    small = exp_of_negative(-np.abs(values))
    return np.asarray(np.where(values >= 0, 1, small) / (1 + small), np.float64)


def encode_weights(weights: NDArray[np.int16]) -> bytes:
    """Return the content of `weights.npy`."""
    file = io.BytesIO()
    np.save(file, weights, allow_pickle=False)
    return file.getvalue()


def read_card(folder: Path) -> QualityCard:
    """Read the manifest of a quality classifier.

    Raises:
        ConfigError: there is none.
        DamagedError: it is damaged.
    """
    return manifest.read_manifest(folder / CARD, QualityCard, what="quality model", command="jprep quality train")


def load_model(folder: Path) -> QualityModel:
    """Read a quality classifier, and check its files against their hashes.

    Raises:
        ConfigError: there is no finished one.
        DamagedError: a file is missing or damaged.
    """
    card = read_card(folder)
    data = read_verified(folder / WEIGHTS, card.weights_sha256, TRAIN_AGAIN)
    try:
        weights = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DamagedError(
            f"the weights cannot be read: {error}", where=str(folder / WEIGHTS), fix=TRAIN_AGAIN
        ) from error
    if weights.dtype != np.int16 or weights.shape != (1 << card.ngrams.bits,):
        what = f"expected {1 << card.ngrams.bits} weights of 16 bits, found {weights.dtype} {weights.shape}"
        raise DamagedError(what, where=str(folder / WEIGHTS), fix=TRAIN_AGAIN)
    return QualityModel(card, weights)


def _wide(kind: type) -> type:
    return np.int64 if kind is np.int32 else np.float64
