"""Export as TFRecord shards: token rows with one feature, or rows for training with the features of other programs."""

from __future__ import annotations

from pathlib import Path

from jprep.dataset.exports.base import ExportedSplit, ExportFormat, ExportJob
from jprep.dataset.exports.tfrecord import token_rows, training_rows


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write the shards of all splits; see `ExportFormat.write`."""
    return training_rows.write(job) if job.options.features else token_rows.write(job)


def check(job: ExportJob) -> None:
    """Refuse options that exclude each other; see `ExportFormat.check`."""
    training_rows.check(job)


FORMAT = ExportFormat(write, ("length", "shard_mb", *training_rows.OPTIONS), check)
