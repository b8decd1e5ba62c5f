"""The model that tells Japanese from other languages, mojibake and machine junk."""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from jprep.corpus.signals.language.ngrams import CLASSES, LEVELS, UNIGRAMS, pack, sum_weights
from jprep.corpus.signals.portable_math import exp_of_negative, interpolate

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("japanese", "chinese", "korean", "mojibake", "junk", "other")
"""The classes. The weights of the others are relative to Japanese, which has none."""


class LanguageModel(NamedTuple):
    """A linear model over character n-grams, with integer weights.

    Attributes:
        tables: packed weights of unigrams, bigrams and trigrams.
        scale: what a unit of a weight adds to a logit.
        bias: logit of each class but Japanese in a text without n-grams, shape [CLASSES].
        lengths: logarithms of lengths in characters, ascending.
        sharpness: factor of the logits of texts of these lengths.
    """

    tables: tuple[NDArray[np.int64], ...]
    scale: float
    bias: NDArray[np.float64]
    lengths: NDArray[np.float64]
    sharpness: NDArray[np.float64]

    def scores(self, codes: NDArray[np.uint32], starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of each class for each text, shape [texts, len(NAMES)]; NaN for an empty text.

        Args:
            codes: code points of the texts, each text followed by a line feed.
            starts: where each text begins in `codes`, shape [texts + 1].
        """
        lengths = np.diff(starts) - 1
        means = sum_weights(codes, starts, self.tables) / np.maximum(lengths, 1)[:, None]
        sharpness = interpolate(_log2(np.maximum(lengths, 1)), self.lengths, self.sharpness)
        logits = np.zeros((len(NAMES), len(lengths)))
        logits[1:] = ((means * self.scale + self.bias) * sharpness[:, None]).T
        powers = exp_of_negative(logits - logits.max(axis=0))
        powers[:, lengths == 0] = np.nan
        total = powers[0].copy()
        for row in powers[1:]:
            total += row
        probabilities: NDArray[np.float64] = (powers / total).T
        return probabilities


def _log2(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return nearly the logarithm: exact at powers of 2, linear between them; the same on every machine."""
    mantissa, exponent = np.frexp(lengths.astype(np.float64))
    logarithms: NDArray[np.float64] = exponent - 2 + 2 * mantissa
    return logarithms


@functools.cache
def shipped_model() -> tuple[LanguageModel, str]:
    """Return the model in the package and the SHA-256 of its file. Read once in each process."""
    path = files("jprep.corpus.signals.language") / "model.npz"
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
        file.seek(0)
        return read_model(file), digest


def read_model(file: IO[bytes]) -> LanguageModel:
    """Read a model from an .npz file."""
    with np.load(file, allow_pickle=False) as arrays:
        weights = arrays["weights"]
        hashed = (len(weights) - UNIGRAMS) // 2
        parts = np.split(weights, [UNIGRAMS, UNIGRAMS + hashed])
        tables = tuple(pack(part) for part in parts)
        return LanguageModel(tables, float(arrays["scale"]), arrays["bias"], arrays["lengths"], arrays["sharpness"])


def write_model(
    file: IO[bytes],
    weights: NDArray[np.uint8],
    scale: float,
    bias: NDArray[np.float64],
    lengths: NDArray[np.float64],
    sharpness: NDArray[np.float64],
) -> None:
    """Write a model as an .npz file.

    Args:
        file: file to write to.
        weights: integers below LEVELS, of unigrams, bigrams and trigrams, shape [places, CLASSES].
        scale: what a unit of a weight adds to a logit.
        bias: logits in a text without n-grams, shape [CLASSES].
        lengths: base-2 logarithms of lengths in characters, ascending.
        sharpness: factor of the logits of texts of these lengths.
    """
    assert weights.shape[1] == CLASSES and int(weights.max()) < LEVELS
    np.savez_compressed(file, weights=weights, scale=scale, bias=bias, lengths=lengths, sharpness=sharpness)
