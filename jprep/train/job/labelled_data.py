"""A labelled job's rows: which are trained on, and which are held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jprep.dataset.labelled.dataset import LabelledDataset, TokenizerLike, encode_labelled
from jprep.dataset.labelled.reader import LabelledTask
from jprep.dataset.sampling.sample_index import Integers
from jprep.errors import ConfigError
from jprep.train.job.config import TrainConfig


class LabelledSplits(NamedTuple):
    """The rows of a labelled job, encoded.

    Attributes:
        data: the rows of `train.data`.
        rows: which of them are trained on, (rows,).
        validation: what is validated on: rows of the files named for it, or of `data`.
        validation_rows: which rows of that, (rows,); none where nothing is.
    """

    data: LabelledDataset
    rows: Integers
    validation: LabelledDataset
    validation_rows: Integers


def read_labelled_splits(
    train: TrainConfig, tokenizer: TokenizerLike, base: Path = Path(), names: Sequence[str] = ()
) -> LabelledSplits:
    """Read and encode a labelled job's rows: those to train on, and those to validate on.

    Args:
        train: the section of a `classify` or a `regress` job.
        tokenizer: encodes them.
        base: the folder that its paths lead from.
        names: the labels in order, where they are known; by default those that are found, in sorted order.

    Raises:
        ConfigError: there is no such file or nothing in it, no such fold, or a number is out of its range.
        InputError: a row that cannot be used, or a label to validate on that is not there to train on.
    """
    task: LabelledTask = "classify" if train.task == "classify" else "regress"
    data = encode_labelled([base / path for path in train.data], tokenizer, train.labelled, task, names)
    everything = np.arange(len(data))
    if train.validation_data:
        files = [base / path for path in train.validation_data]
        other = encode_labelled(files, tokenizer, train.labelled, task, data.names)
        found = LabelledSplits(data, everything, other, np.arange(len(other)))
    elif train.labelled.folds:
        rows, held = data.split(train.fold)
        found = LabelledSplits(data, rows, data, held)
    else:
        found = LabelledSplits(data, everything, data, everything[:0])
    if not len(found.rows):
        fix = "name files with rows, or take more folds"
        raise ConfigError("there is no row to train on", where=", ".join(train.data), fix=fix)
    return found
