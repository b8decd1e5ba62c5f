"""What every form of export shares: what is asked for, what is written, who watches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from jprep.dataset.exports.row_reader import Block, RowReader
from jprep.dataset.manifest import SPLITS, DatasetManifest
from jprep.engine.runner import ProgressReporter
from jprep.engine.stage import Output, Receipt
from jprep.io.atomic import file_sha256

SequenceUnit = Literal["document", "paragraph", "sentence"]

EXPORT = "export.json"

FILES: dict[str, tuple[str, ...]] = {
    "fairseq": ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"),
    "tfrecord": tuple(f"{split}-[0-9]*-of-[0-9]*.tfrecord" for split in SPLITS),
    "arrow": (
        "dataset_dict.json",
        *(f"{split}/data-[0-9]*-of-[0-9]*.arrow" for split in SPLITS),
        *(f"{split}/{name}" for split in SPLITS for name in ("state.json", "dataset_info.json")),
    ),
}
"""Patterns of the names of each form's files, so that those of an earlier export do not stay."""


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be chosen; None is the form's own default.

    Attributes:
        unit: fairseq: what one sequence is.
        length: tfrecord, arrow: tokens of a row; documents are rows without it. fairseq: of the longest sequence.
        shard_mb: tfrecord, arrow: the size of a file, in millions of bytes.
    """

    unit: SequenceUnit | None = None
    length: int | None = None
    shard_mb: int | None = None

    def given(self) -> dict[str, Any]:
        """What was chosen."""
        return {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}


class ExportedSplit(msgspec.Struct, frozen=True):
    """One split as it was written.

    Attributes:
        name: `train` or `validation`.
        rows: sequences, examples or rows.
        tokens: in all of them.
        left_out: tokens at the split's end that filled no row of the asked length.
        files: the files that hold them.
    """

    name: str
    rows: int
    tokens: int
    left_out: int
    files: list[Output]


class DatasetExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`export.json`: what an export was made of. It is written last: a folder without it is not finished.

    Attributes:
        jprep: the version that wrote it.
        form: `fairseq`, `tfrecord` or `arrow`.
        options: what was chosen.
        dataset: the dataset's name, signature and fingerprint.
        dtype, vocab_size, end, newline: the dataset's.
        splits: what was written of each split that has documents.
        further: other files.
    """

    jprep: str
    form: str
    options: dict[str, Any]
    dataset: dict[str, str]
    dtype: str
    vocab_size: int
    end: int
    newline: int
    splits: list[ExportedSplit]
    further: list[Output]


class ExportJob:
    """One export at work.

    Args:
        folder: the dataset's.
        dataset: its manifest.
        tokenizer: the tokenizer's folder.
        out: the folder to write to.
        options: what was chosen.
        progress: is told of each block.
    """

    def __init__(
        self,
        folder: Path,
        dataset: DatasetManifest,
        tokenizer: Path,
        out: Path,
        options: ExportOptions,
        progress: ProgressReporter,
    ) -> None:
        self.folder, self.dataset, self.tokenizer, self.out = folder, dataset, tokenizer, out
        self.options, self._progress = options, progress

    def splits(self, length: int = 0) -> list[RowReader]:
        """The splits that have documents: most readers do not take empty ones."""
        return [RowReader(self.folder, self.dataset, split, length) for split in self.dataset.splits if split.documents]

    def begin(self) -> None:
        """Begin to count."""
        size = np.dtype(self.dataset.dtype).itemsize
        self._progress.begin("export", size * sum(split.tokens for split in self.dataset.splits))

    def done(self, block: Block) -> None:
        """A block is written."""
        receipt = Receipt("", "", "", [], {"total.documents": block.rows}, {})
        self._progress.advance(block.tokens.nbytes, receipt, fresh=True)

    def output(self, path: Path, rows: int) -> Output:
        """A file that is under its final name."""
        return Output(path.relative_to(self.out).as_posix(), rows, file_sha256(path))


class ExportFormat(msgspec.Struct, frozen=True):
    """A form of export.

    Attributes:
        write: writes all splits; returns them, and the further files.
        takes: the names of the options that it knows.
        check: raises ConfigError, before anything is touched, where the form does not fit.
    """

    write: Callable[[ExportJob], tuple[list[ExportedSplit], list[Path]]]
    takes: tuple[str, ...]
    check: Callable[[ExportJob], None] = lambda job: None


class ShardWriter(Protocol):
    """Writes rows to one file."""

    def __call__(self, job: ExportJob, rows: RowReader, first: int, last: int, path: Path) -> None:
        """Write the rows from `first` to before `last`."""


def write_shards(job: ExportJob, name: str, shard_tokens: int, pack: ShardWriter) -> list[ExportedSplit]:
    """Write every split as shards; one that is shorter than a row has none.

    Args:
        job: the job.
        name: a shard's path, with `{split}`, `{number}` and `{count}`.
        shard_tokens: tokens of a shard, at most.
        pack: writes one shard.
    """
    return [_shards(job, rows, name, shard_tokens, pack) for rows in job.splits(job.options.length or 0)]


def _shards(job: ExportJob, rows: RowReader, name: str, shard_tokens: int, pack: ShardWriter) -> ExportedSplit:
    cuts, files = rows.shards(shard_tokens), []
    for number, (first, last) in enumerate(cuts):
        path = job.out / name.format(split=rows.split.name, number=number, count=len(cuts))
        pack(job, rows, first, last, path)
        files.append(job.output(path, last - first))
    return ExportedSplit(rows.split.name, len(rows), rows.tokens, rows.left_out, files)
