"""Weights while they are trained: logistic loss, AdaGrad, averages over the passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from jprep.corpus.segmenters.pointwise.features import LANES, FeatureConfig, Features, extract_features
from jprep.corpus.segmenters.pointwise.second_look import FEATURES
from jprep.corpus.segmenters.pointwise.weights import MAX_DIRECT, MAX_LANE, SCALE, Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.segmenters.pointwise.training.examples import Batch

_FLOOR = 0.1  # squared gradients at the start: what is rarely seen learns little


class LearnerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the learner.

    Attributes:
        learning_rate: learning rate of AdaGrad.
        second_rate: the same for the second look.
        least_error: boundaries whose error is at most this are skipped, which saves time.
        batch: characters of a step.
    """

    learning_rate: Annotated[float, msgspec.Meta(gt=0, le=10)] = 0.15
    second_rate: Annotated[float, msgspec.Meta(gt=0, le=10)] = 0.05
    least_error: Annotated[float, msgspec.Meta(ge=0, lt=0.5)] = 0.02
    batch: Annotated[int, msgspec.Meta(ge=16, le=1 << 20)] = 4096


class Table:
    """The weights of one table, with the sums of their squared gradients and of their values at several times.

    Attributes:
        values: the weights, float32.
        total: sums of the weights at several times.

    Args:
        size: number of weights.
    """

    def __init__(self, size: int) -> None:
        self.values = np.zeros(size, np.float32)
        self.total = np.zeros(size, np.float32)
        self._squares = np.full(size, _FLOOR, np.float32)

    def learn(self, index: NDArray[np.intp], gradient: NDArray[np.float32], rate: float) -> None:
        """Take a step. Several gradients of one weight are added."""
        np.add.at(self._squares, index, gradient * gradient)
        steps = gradient / np.sqrt(self._squares.take(index))
        steps *= np.float32(-rate)
        np.add.at(self.values, index, steps)


class Learner:
    """The weights of a model while they are trained.

    Args:
        features: sizes of the tables.
        words: the dictionary.
        config: options.
    """

    def __init__(self, features: FeatureConfig, words: NDArray[np.uint8], config: LearnerConfig) -> None:
        self._features, self._words, self._config = features, words, config
        self._rows = [Table(lanes << bits) for bits, lanes in zip(features.row_bits, LANES, strict=True)]
        self._direct = [Table(1 << bits) for bits in features.direct_bits]
        self._bias = Table(1)
        self._averaged = 0

    def step(self, batch: Batch) -> tuple[float, float]:
        """Learn from a batch; return the number of wrong boundaries and of all that count."""
        found = extract_features(batch.symbols, self._words, self._features)
        scores = self._scores(found, len(batch.labels))
        errors = logistic_errors(scores, batch.labels) * batch.counted
        places = np.flatnonzero(np.abs(errors) > self._config.least_error)
        self._learn(found, places, errors[places].astype(np.float32))
        return float(np.count_nonzero(np.abs(errors) > 0.5)), float(batch.counted.sum())

    def add_to_average(self) -> None:
        """Add the current weights to the average."""
        self._averaged += 1
        for table in (*self._rows, *self._direct, self._bias):
            table.total += table.values

    def weights(self) -> Weights:
        """Return the average of the weights as integers, without a second look."""
        rows: list[Any] = [
            rounded(self._average(table), MAX_LANE, np.int8).reshape(-1, lanes)
            for table, lanes in zip(self._rows, LANES, strict=True)
        ]
        direct: list[Any] = [rounded(self._average(table), MAX_DIRECT, np.int16) for table in self._direct]
        bias = int(rounded(self._average(self._bias), MAX_DIRECT, np.int16)[0])
        second = np.zeros((FEATURES, 1 << self._features.second), np.int8)
        return Weights(self._features, rows, direct, self._words, second, bias)

    def _scores(self, found: Features, size: int) -> NDArray[np.float32]:
        scores = np.full(size, self._bias.values[0], np.float32)
        for table, rows, lanes in zip(self._rows, found.rows, LANES, strict=True):
            taken = table.values.reshape(-1, lanes).take(rows, axis=0)
            for lane in range(lanes):
                scores += taken[lane : lane + size, lane]
        for table, index in zip(self._direct, found.direct, strict=True):
            scores += table.values.take(index)
        return scores

    def _learn(self, found: Features, places: NDArray[np.intp], errors: NDArray[np.float32]) -> None:
        rate = self._config.learning_rate
        for table, rows, lanes in zip(self._rows, found.rows, LANES, strict=True):
            lane = np.arange(lanes)
            index = rows[places[:, None] + lane] * lanes + lane
            table.learn(index.ravel(), np.repeat(errors, lanes), rate)
        for table, index in zip(self._direct, found.direct, strict=True):
            table.learn(index[places], errors, rate)
        self._bias.learn(np.zeros(len(places), np.intp), errors, rate)

    def _average(self, table: Table) -> NDArray[np.float32]:
        return table.total / np.float32(self._averaged) if self._averaged else table.values


def logistic_errors(scores: NDArray[np.float32], labels: NDArray[Any]) -> NDArray[np.float32]:
    """Return the probabilities of boundaries, less the labels: the gradient of the logistic loss by the scores."""
    errors: NDArray[np.float32] = 1 / (1 + np.exp(-np.clip(scores, -30, 30))) - labels
    return errors


def rounded(values: NDArray[np.float32], limit: int, kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """Return weights as integers."""
    return np.clip(np.rint(values * SCALE), -limit, limit).astype(kind)
