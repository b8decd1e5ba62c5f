"""The labelled rows of a job: those to train on, and those to validate on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.config import suggest_name
from jprep.dataset.labelled.dataset import LabelledDataset, TokenizerLike, encode_labelled
from jprep.dataset.labelled.reader import LabelledTask, RowCounts
from jprep.dataset.sampling.sample_index import Integers
from jprep.errors import ConfigError
from jprep.train.job.config import TrainConfig


class LabelledSplits(NamedTuple):
    """The encoded rows of a labelled job.

    Attributes:
        data: the rows of `train.data`.
        rows: the indices of the rows to train on, (rows,).
        validation: the rows of `train.validation_data`; without it, `data`.
        validation_rows: the indices of the rows of `validation` to validate on, (rows,); may be empty.
    """

    data: LabelledDataset
    rows: Integers
    validation: LabelledDataset
    validation_rows: Integers


def read_labelled_splits(
    train: TrainConfig, tokenizer: TokenizerLike, base: Path = Path(), names: Sequence[str] = ()
) -> LabelledSplits:
    """Read and encode the labelled rows of a job.

    Args:
        train: the section of a `classify` or a `regress` job.
        tokenizer: encodes the texts.
        base: the folder that the section's paths are relative to.
        names: the labels in order, if known; by default those found, sorted.

    Raises:
        ConfigError: a file does not exist or is empty, there is no such fold, or a number is out of its range.
        InputError: a row that cannot be used, or a label in the validation rows that no training row has.
    """
    task: LabelledTask = "classify" if train.task == "classify" else "regress"
    data = encode_labelled([base / path for path in train.data], tokenizer, train.labelled, task, names)
    if not len(data):
        fix = "give files with rows, one JSON object per line or a table with a header"
        raise ConfigError("there are no rows", where=", ".join(train.data), fix=fix)
    everything = np.arange(len(data))
    if train.validation_data:
        files = [base / path for path in train.validation_data]
        other = encode_labelled(files, tokenizer, train.labelled, task, data.names)
        found = LabelledSplits(data, everything, other, np.arange(len(other)))
    elif train.labelled.folds:
        _check_folds(train, len(data))
        rows, held = data.split(train.fold or 0)
        found = LabelledSplits(data, rows, data, held)
    else:
        found = LabelledSplits(data, everything, data, everything[:0])
    if not len(found.rows):
        fix = "use files with more rows, or more folds"
        raise ConfigError("there are no rows to train on", where=", ".join(train.data), fix=fix)
    return found


def _check_folds(train: TrainConfig, rows: int) -> None:
    if train.labelled.folds > rows:
        what = f"{train.labelled.folds:,} folds are more than the {rows:,} rows in {', '.join(train.data)}"
        raise ConfigError(what, where="train.labelled.folds", fix="e.g. folds = 5; at most one for each row")


def count_rows(found: LabelledSplits) -> RowCounts:
    """Return the rows of a job, and those of each class that are trained on."""
    names, targets = found.data.names, found.data.targets[found.rows]
    labels = np.bincount(targets, minlength=len(names)).tolist() if names else []
    return RowCounts(train=len(found.rows), labels=labels, validation=len(found.validation_rows))


def class_weights(
    given: str | Mapping[str, float], names: Sequence[str], labels: npt.NDArray[Any]
) -> tuple[float, ...]:
    """Return the weight of each class; none if all have 1.

    Args:
        given: `train.class_weights`.
        names: the names of the classes.
        labels: the class of each row to train on, (rows,).

    Raises:
        ConfigError: a weight of a class that does not exist.
    """
    where = "train.class_weights"
    if not given:
        return ()
    if isinstance(given, str):  # balanced: rows / (classes · rows of the class)
        counts = np.bincount(labels, minlength=len(names))
        return tuple(len(labels) / (len(names) * max(1, int(count))) for count in counts)
    for name in given:
        if name not in names:
            raise ConfigError(f"there is no class {name!r}", where=where, fix=suggest_name(name, names))
    return tuple(float(given.get(name, 1.0)) for name in names)
