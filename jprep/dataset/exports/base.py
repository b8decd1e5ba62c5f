"""What all export formats share: options, the manifest, and the writing of shards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from jprep.dataset.exports.row_reader import Block, RowReader
from jprep.dataset.manifest import SPLITS, DatasetManifest
from jprep.dataset.mix import MixConfig, plain_mix
from jprep.dataset.sampling.config import Packing
from jprep.engine.fingerprint import plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.runner import STAGE_JSON, Executor, ProgressReporter, read_made_from
from jprep.engine.stage import Output, Receipt, Stage
from jprep.io.atomic import file_sha256

SequenceUnit = Literal["document", "paragraph", "sentence"]

EXPORT = "export.json"

TOKENIZER_FIX = "pass the tokenizer that the dataset was packed with: --tokenizer DIR"
"""The fix where another tokenizer was given."""

FILES: dict[str, tuple[str, ...]] = {
    "fairseq": ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx", "test.bin", "test.idx"),
    "tfrecord": tuple(f"{split}-[0-9]*-of-[0-9]*.tfrecord" for split in SPLITS),
    "arrow": (
        "dataset_dict.json",
        *(f"{split}/data-[0-9]*-of-[0-9]*.arrow" for split in SPLITS),
        *(f"{split}/{name}" for split in SPLITS for name in ("state.json", "dataset_info.json")),
    ),
    "megatron-blend": (
        *("blend.txt", "blend-stage-[0-9]*.txt", "splits.json"),
        *(f"{name}.{kind}" for name in ("train-[0-9]*-*", "valid-all", "test-all") for kind in ("bin", "idx")),
    ),
}
"""Name patterns of each format's files, to remove those of an earlier export."""


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an export; None is the format's default.

    Attributes:
        unit: fairseq: what a sequence is.
        length: tfrecord, arrow: tokens per row; without it, rows are documents. fairseq: maximum tokens per sequence.
        shard_mb: tfrecord, arrow: file size in millions of bytes.
        features: tfrecord: write rows for training with the features of this program; without it, token rows.
        packing: tfrecord with features: how documents become rows, as in `[train]`.
        next_sentence: tfrecord with features: whether rows are sentence pairs, as in `[train]`.
        masks: tfrecord with features: `static` writes masked rows, `dynamic` leaves masking to the input pipeline.
        mask_rate: tfrecord with features: share of tokens to predict.
        whole_word: tfrecord with features: whether all tokens of a word are masked together.
        dupe_factor: tfrecord with features: how often each sample is written, with masks and pairs of its own.
        max_predictions: tfrecord with features = "bert": maximum masked tokens of a row.
        rows_per_shard: tfrecord with features: rows of a file.
        seed: tfrecord with features: seed of order, pairs and masks.
        mix: megatron-blend: the mixture; without it, each source has as much weight as it has tokens.
        prefix: megatron-blend: the folder that its lists name; without it, they name files of their own folder.
    """

    unit: SequenceUnit | None = None
    length: int | None = None
    shard_mb: int | None = None
    features: Literal["bert", "electra", "transformers"] | None = None
    packing: Packing | None = None
    next_sentence: bool | None = None
    masks: Literal["static", "dynamic"] | None = None
    mask_rate: float | None = None
    whole_word: bool | None = None
    dupe_factor: int | None = None
    max_predictions: int | None = None
    rows_per_shard: int | None = None
    seed: int | None = None
    mix: MixConfig | None = None
    prefix: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the options that are set."""
        found = msgspec.to_builtins(self) | ({"mix": plain_mix(self.mix)} if self.mix else {})
        return {key: value for key, value in found.items() if value is not None}


class ExportedSplit(msgspec.Struct, frozen=True):
    """A split as it was written.

    Attributes:
        name: `train`, `validation` or `test`.
        rows: number of sequences, examples or rows.
        tokens: tokens in all rows.
        left_out: tokens at the end of the split that do not fill a row of the requested length.
        files: the files written.
    """

    name: str
    rows: int
    tokens: int
    left_out: int
    files: list[Output]


class DatasetExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`export.json`. It is written last: a directory without it is unfinished.

    Attributes:
        jprep: version of jprep that wrote it.
        form: `fairseq`, `tfrecord`, `arrow` or `megatron-blend`.
        options: options that were set.
        dataset: name, signature and fingerprint of the dataset.
        dtype, vocab_size, end, newline: from the dataset's manifest.
        splits: each split that has documents, as it was written.
        further: other files.
        features: tfrecord with features: type and number of the values of each feature.
        counts: tfrecord with features: rows, tokens, labels (masked tokens), and labels that `max_predictions` dropped.
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
    features: dict[str, tuple[str, int]] | msgspec.UnsetType = msgspec.UNSET
    counts: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


class ExportJob:
    """An export in progress.

    Args:
        folder: the dataset directory.
        dataset: its manifest.
        tokenizer: the tokenizer directory.
        out: output directory.
        options: options of the format.
        progress: progress callback.
        directory: the output directory, for unfinished work.
        executor: runs the tasks of formats that have a stage.

    Attributes:
        about: fields of the manifest that only some formats have; set by the format.
    """

    def __init__(
        self,
        folder: Path,
        dataset: DatasetManifest,
        tokenizer: Path,
        out: Path,
        options: ExportOptions,
        progress: ProgressReporter,
        directory: OutputDirectory,
        executor: Executor,
    ) -> None:
        self.folder, self.dataset, self.tokenizer, self.out = folder, dataset, tokenizer, out
        self.options, self._progress = options, progress
        self._directory, self._executor = directory, executor
        self.about: dict[str, Any] = {}

    def splits(self, length: int = 0) -> list[RowReader]:
        """Return the splits that have documents: most readers reject empty ones."""
        return [RowReader(self.folder, self.dataset, split, length) for split in self.dataset.splits if split.documents]

    def begin(self) -> None:
        """Start reporting progress."""
        size = np.dtype(self.dataset.dtype).itemsize
        self._progress.begin("export", size * sum(split.tokens for split in self.dataset.splits))

    def run_stage(self, stage: Stage) -> list[Receipt]:
        """Run a stage, or what an interrupted export of the same dataset with the same options has left of it."""
        state = self._directory.state
        begun = read_made_from(state / stage.name / STAGE_JSON)
        if begun and begun != plain(stage.fields()):
            self._directory.clean()
        return self._directory.run_stage(stage, self._executor, self._progress)

    def work_folder(self) -> Path:
        """Return a directory for files that are deleted when the export is finished."""
        folder = self._directory.state / "lists"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def done(self, block: Block) -> None:
        """Report a written block."""
        receipt = Receipt("", "", "", [], {"total.documents": block.rows}, {})
        self._progress.advance(block.tokens.nbytes, receipt, fresh=True)

    def output(self, path: Path, rows: int) -> Output:
        """Describe a finished file."""
        return Output(path.relative_to(self.out).as_posix(), rows, file_sha256(path))


class ExportFormat(msgspec.Struct, frozen=True):
    """An export format.

    Attributes:
        write: writes all splits; returns them, and the other files.
        takes: names of the supported options.
        check: called before anything is written; raises ConfigError if the dataset cannot be exported in this format.
    """

    write: Callable[[ExportJob], tuple[list[ExportedSplit], list[Path]]]
    takes: tuple[str, ...]
    check: Callable[[ExportJob], None] = lambda job: None


class ShardWriter(Protocol):
    """Writes rows to a file."""

    def __call__(self, job: ExportJob, rows: RowReader, first: int, last: int, path: Path) -> None:
        """Write the rows from `first` to before `last`."""


def write_shards(job: ExportJob, name: str, shard_tokens: int, write: ShardWriter) -> list[ExportedSplit]:
    """Write every split as shards; a split that is shorter than a row has none.

    Args:
        job: the export.
        name: path of a shard, with `{split}`, `{number}` and `{count}`.
        shard_tokens: maximum tokens per shard.
        write: writes one shard.
    """
    job.begin()
    return [_write_split(job, rows, name, shard_tokens, write) for rows in job.splits(job.options.length or 0)]


def _write_split(job: ExportJob, rows: RowReader, name: str, shard_tokens: int, write: ShardWriter) -> ExportedSplit:
    cuts, files = rows.shards(shard_tokens), []
    for number, (first, last) in enumerate(cuts):
        path = job.out / name.format(split=rows.split.name, number=number, count=len(cuts))
        write(job, rows, first, last, path)
        files.append(job.output(path, last - first))
    return ExportedSplit(rows.split.name, len(rows), rows.tokens, rows.left_out, files)
