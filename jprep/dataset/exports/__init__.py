"""Export a dataset to the formats of other programs: fairseq's data-bin, TFRecord, Arrow."""

from __future__ import annotations

import contextlib
import importlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from jprep.dataset.exports.base import (
    EXPORT,
    FILES,
    DatasetExportManifest,
    ExportedSplit,
    ExportFormat,
    ExportJob,
    ExportOptions,
)
from jprep.dataset.exports.card import write_card
from jprep.dataset.manifest import DatasetManifest, read_dataset
from jprep.engine.checksummed_json import decode_checksummed
from jprep.engine.executors.local import Local
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import DATASET_EXPORT
from jprep.engine.runner import Executor, ProgressReporter, SilentProgress
from jprep.engine.stage import Output
from jprep.errors import ConfigError

FORMATS = tuple(FILES)


def export_dataset(
    folder: Path,
    tokenizer: Path | None,
    format: str,
    out: Path,
    options: ExportOptions | None = None,
    progress: ProgressReporter | None = None,
    executor: Executor | None = None,
) -> list[Path]:
    """Write a finished dataset in another program's format. The output is deterministic; memory use is constant.

    Args:
        folder: the dataset directory.
        tokenizer: the tokenizer directory; by default `tokenizer` beside the dataset. Required by fairseq.
        format: `fairseq`, `tfrecord`, `arrow` or `megatron-blend`.
        out: output directory; new, empty, or with an export in this format, which is replaced. Files that the user has
            added stay.
        options: options of the format.
        progress: progress callback.
        executor: runs the tasks of TFRecord exports with features, which resume; by default in this process.

    Returns:
        The files written, `export.json` last.

    Raises:
        ConfigError: no finished dataset or tokenizer, an option of another format, an output directory with other
            content, or special tokens that fairseq lacks.
        MachineError: the files cannot be written.
    """
    dataset, chosen, writer = read_dataset(folder), options or ExportOptions(), _load_format(format)
    sibling = folder.absolute().parent / "tokenizer"
    directory = OutputDirectory(out, DATASET_EXPORT, files=FILES[format])
    job = ExportJob(
        folder,
        dataset,
        tokenizer or sibling,
        out,
        chosen,
        progress or SilentProgress(),
        directory,
        executor or Local(),
    )
    _refuse_options(format, writer, chosen)
    directory.check()
    _refuse_other_format(format, out)
    writer.check(job)
    with directory.claim():
        directory.remove_manifest()
        splits, others = writer.write(job)
        written = [out / file.path for split in splits for file in split.files] + others
        manifest = _manifest(dataset, format, chosen, splits, [], job.about)
        if card := write_card(out, dataset, manifest):
            written, others = [*written, card], [*others, card]
        manifest = msgspec.structs.replace(manifest, further=[job.output(path, 0) for path in others])
        directory.seal(manifest, keep={path.relative_to(out).as_posix() for path in written})
        directory.clean()
        with contextlib.suppress(OSError):  # there is none, or it is not empty
            directory.state.rmdir()
    return [*written, out / EXPORT]


def read_export_manifest(folder: Path) -> DatasetExportManifest:
    """Read the manifest of an export.

    Raises:
        ConfigError: the directory holds no finished export.
    """
    try:
        return decode_checksummed((folder / EXPORT).read_bytes(), DatasetExportManifest)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        fix = "give the output directory of `jprep dataset export`; if it was interrupted, rerun it"
        raise ConfigError("no finished export in this directory", where=str(folder), fix=fix) from error


def _load_format(format: str) -> ExportFormat:
    if format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}", fix=f"choose one of {', '.join(FORMATS)}")
    module = importlib.import_module(f"{__name__}.{format.replace('-', '_')}")  # imports pyarrow only when it is needed
    writer: ExportFormat = module.FORMAT
    return writer


def _refuse_options(format: str, writer: ExportFormat, options: ExportOptions) -> None:
    for name, value in options.given().items():
        if name not in writer.takes:
            takes = ", ".join(writer.takes)
            raise ConfigError(f"{format} has no option {name}", where=f"{name} = {value}", fix=f"its options: {takes}")
        if isinstance(value, int) and value < 1 and name != "seed":
            raise ConfigError(f"{name} must be at least 1", where=f"{name} = {value}", fix="remove it or increase it")


def _refuse_other_format(format: str, out: Path) -> None:
    """Refuse a directory with an export in another format, finished or not."""
    for other in (each for each in FORMATS if each != format):
        finished = (out / EXPORT).exists() and read_export_manifest(out).form == other
        if finished or (out.is_dir() and OutputDirectory(out, DATASET_EXPORT, files=FILES[other]).files()):
            state = "finished" if finished else "unfinished"
            what = f"this directory holds a dataset exported as {other} ({state})"
            raise ConfigError(what, where=str(out), fix="choose another directory for -o")


def _manifest(
    dataset: DatasetManifest,
    format: str,
    options: ExportOptions,
    splits: list[ExportedSplit],
    other_files: list[Output],
    about: dict[str, Any],
) -> DatasetExportManifest:
    return DatasetExportManifest(
        jprep=version("jprep"),
        form=format,
        options=options.given(),
        dataset={"name": dataset.name, "signature": dataset.signature, "fingerprint": dataset.fingerprint},
        dtype=dataset.dtype,
        vocab_size=dataset.vocab_size,
        end=dataset.end,
        newline=dataset.newline,
        splits=splits,
        further=other_files,
        **about,
    )
