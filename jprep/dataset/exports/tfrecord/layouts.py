"""The features of rows for training, under the names that other programs read. `docs/exports.md` lists them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.sampling.masking import IGNORE_INDEX, Ids
from jprep.dataset.sampling.sampler import Batch
from jprep.dataset.sampling.special_ids import SpecialIds

FeatureArrays = dict[str, npt.NDArray[Any]]
"""Feature → values, (rows, values): int64 lists, or float lists for float32."""


class RowOptions(NamedTuple):
    """What the features of a row depend on.

    Attributes:
        special: the tokenizer's special ids.
        masked: whether rows are masked already.
        max_predictions: entries of `masked_lm_positions`.
    """

    special: SpecialIds
    masked: bool
    max_predictions: int


def bert_features(batch: Batch, options: RowOptions) -> FeatureArrays:
    """Return the features that google-research/bert reads.

    Without sentence pairs each row is one segment, and `next_sentence_labels` is 0.
    """
    features = electra_features(batch, options)
    if options.masked:
        features |= _predictions(batch.labels, options.max_predictions)
    pairs = np.zeros(len(batch.lengths), np.int32) if batch.next_sentence is None else batch.next_sentence
    return features | {"next_sentence_labels": pairs.reshape(-1, 1)}


def electra_features(batch: Batch, options: RowOptions) -> FeatureArrays:
    """Return the features that google-research/electra reads."""
    return {
        "input_ids": batch.input_ids,
        "input_mask": batch.attention_mask.astype(np.int32),
        "segment_ids": _segments(batch),
    }


def transformers_features(batch: Batch, options: RowOptions) -> FeatureArrays:
    """Return the inputs of transformers' models, or of any Keras model that is called with a dictionary."""
    attention = batch.attention_mask.astype(np.int32)
    features: FeatureArrays = {"input_ids": batch.input_ids, "attention_mask": attention}
    if options.special.types or batch.segments is not None:
        features["token_type_ids"] = _segments(batch)
    if options.masked:
        features["labels"] = batch.labels
    else:  # for masks that are drawn in the input pipeline
        special = np.isin(batch.input_ids, options.special.special) | (attention == 0)
        features["special_tokens_mask"] = special.astype(np.int32)
    if batch.next_sentence is not None:
        features["next_sentence_label"] = batch.next_sentence.reshape(-1, 1)
    return features


LAYOUTS = {"bert": bert_features, "electra": electra_features, "transformers": transformers_features}


def _segments(batch: Batch) -> Ids:
    return np.zeros_like(batch.input_ids) if batch.segments is None else batch.segments


def _predictions(labels: Ids, most: int) -> FeatureArrays:
    """Return positions, ids and weights of masked tokens in the order of the row, filled up with zeros.

    Args:
        labels: (rows, length), with at most `most` labels in a row.
        most: columns of the result.
    """
    rows, columns = (labels != IGNORE_INDEX).nonzero()
    counts = np.bincount(rows, minlength=len(labels))
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    positions, ids = np.zeros((2, len(labels), most), np.int32)
    weights = np.zeros((len(labels), most), np.float32)
    positions[rows, places], ids[rows, places], weights[rows, places] = columns, labels[rows, columns], 1.0
    return {"masked_lm_positions": positions, "masked_lm_ids": ids, "masked_lm_weights": weights}
