"""Training batches from TFRecord shards that `jprep dataset export --format tfrecord --features …` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.dataset.exports.tfrecord.reading import Features, find_shards, read_rows
from jprep.dataset.manifest import TRAIN
from jprep.dataset.sampling.masking import IGNORE_INDEX, Masking
from jprep.dataset.sampling.sampler import Batch, SampleOrder, SamplerConfig, mask_keys
from jprep.errors import InputError
from jprep.random.counter_bits import UInt64Array
from jprep.train.job.config import Job
from jprep_keras.options import SECTION

_WHERE = f"{SECTION}.records"


def record_batches(job: Job, patterns: Sequence[str], start: int) -> Iterator[Batch]:
    """Find the shards, and return the batches of a job from a step on: batch s has the rows s · batch and following.

    Rows without masks are masked here for `mlm`, differently in each pass over the shards.

    Args:
        job: the job.
        patterns: paths or URLs of the shards, which may contain `*`.
        start: number of updates already done.

    Raises:
        ConfigError: there are no such files.
        InputError: a shard is damaged; later, its rows do not fit the job.
    """
    shards, size = find_shards(patterns), job.train.batch
    rows, total = read_rows(shards, start * size), sum(shard.rows for shard in shards)
    return (batch_of(job, list(islice(rows, size)), row_keys(job, total, step)) for step in count(start))


def row_keys(job: Job, total: int, step: int) -> UInt64Array:
    """Return the keys of the masks of a step's rows, (batch,).

    Shards have the order of the first epoch, so in the first pass these are the keys of the session.

    Args:
        job: the job.
        total: number of rows of all shards.
        step: number of updates already done.
    """
    train = job.train
    epochs, places = np.divmod(np.arange(step * train.batch, (step + 1) * train.batch), total)
    first_epoch = SampleOrder(total, train.batch, train.seed, TRAIN)
    config = SamplerConfig(batch=train.batch, length=train.length, seed=train.seed)
    return mask_keys(config, epochs, first_epoch.samples_at(0, places))


def batch_of(job: Job, rows: Sequence[Features], keys: UInt64Array) -> Batch:
    """Return rows as the sampler's batch.

    Args:
        job: the job.
        rows: the rows.
        keys: the keys of their masks, (rows,), for rows without masks.

    Raises:
        InputError: the rows lack a feature, or do not fit the job.
    """
    names = rows[0].keys()
    mask = "input_mask" if "input_mask" in names else "attention_mask"
    if missing := {"input_ids", mask} - names:
        raise _unsuitable(f"the rows lack the feature {min(missing)}")
    ids, attention = _stacked(rows, "input_ids"), _stacked(rows, mask)
    if ids.shape[1] != job.train.length or ids.max(initial=0) >= job.model["vocab_size"]:
        what = f"rows of {ids.shape[1]} tokens with ids up to {ids.max(initial=0)}"
        raise _unsuitable(f"{what} do not fit the job's length {job.train.length} and its vocabulary")
    types = next((name for name in ("segment_ids", "token_type_ids") if name in names), "")
    pairs = next((name for name in ("next_sentence_labels", "next_sentence_label") if name in names), "")
    segments = _stacked(rows, types) if types else None
    _check_pairs(job, paired=segments is not None and bool(segments.any()), labelled=bool(pairs))
    numbers, lengths = np.zeros(len(rows), np.int64), attention.sum(axis=1).astype(np.int32)
    if job.train.task == "mlm" and not names & {"labels", "masked_lm_positions"}:
        ids, labels = _masking(job)(ids, lengths, keys)
    else:
        labels = _labels(job, rows, ids, attention)
    return Batch(
        input_ids=ids,
        labels=labels,
        lengths=lengths,
        word_starts=None,
        epochs=numbers,
        indices=numbers,
        segments=segments,
        next_sentence=_stacked(rows, pairs)[:, 0] if pairs and job.train.next_sentence else None,
    )


def _check_pairs(job: Job, *, paired: bool, labelled: bool) -> None:
    """Refuse rows that are not pairs of sentences for a job with `next_sentence`, and pairs for one without."""
    wanted = job.train.next_sentence
    if wanted and not (paired and labelled):
        raise _unsuitable("the rows are not pairs of sentences", "export them with --next-sentence")
    if paired and not wanted:
        fix = "set train.next_sentence = true, or export them without --next-sentence"
        raise _unsuitable("the rows are pairs of sentences", fix)


def _masking(job: Job) -> Masking:
    """Return the job's masking of single tokens.

    Raises:
        InputError: the job masks whole words, which rows of ids do not mark.
    """
    if job.train.masking.whole_word:
        raise _unsuitable("the rows are not masked, and do not mark words", "export them with --masks static")
    return Masking(job.train.masking, job.special)


def _labels(job: Job, rows: Sequence[Features], ids: npt.NDArray[Any], mask: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the labels, (rows, length)."""
    if "labels" in rows[0]:
        return _stacked(rows, "labels")
    if job.train.task == "clm":
        return np.where(mask > 0, ids, IGNORE_INDEX).astype(np.int32)
    labels = np.full_like(ids, IGNORE_INDEX)
    weights = _stacked(rows, "masked_lm_weights", np.float32)
    row, column = weights.nonzero()
    labels[row, _stacked(rows, "masked_lm_positions")[row, column]] = _stacked(rows, "masked_lm_ids")[row, column]
    return labels


def _stacked(rows: Sequence[Features], name: str, dtype: type[np.generic] = np.int32) -> npt.NDArray[Any]:
    """Return a feature of all rows.

    Raises:
        InputError: a row lacks it, or has another number of values.
    """
    try:
        return np.stack([row[name] for row in rows]).astype(dtype)
    except (KeyError, ValueError) as error:
        raise _unsuitable(f"the rows differ in the feature {name}") from error


def _unsuitable(
    what: str, fix: str = "export them from the job's dataset and tokenizer, with its length"
) -> InputError:
    return InputError(what, where=_WHERE, fix=fix)
