"""A dataset in the forms of other programs: fairseq's data-bin, TFRecord, Arrow."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from pathlib import Path

from jprep.dataset.exports.base import (
    EXPORT,
    FILES,
    DatasetExportManifest,
    ExportedSplit,
    ExportFormat,
    ExportJob,
    ExportOptions,
)
from jprep.dataset.manifest import DatasetManifest, read_dataset
from jprep.engine.checksummed_json import decode_checksummed
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import DATASET_EXPORT
from jprep.engine.runner import ProgressReporter, SilentProgress
from jprep.engine.stage import Output
from jprep.errors import ConfigError

FORMATS = tuple(FILES)


def export_dataset(
    folder: Path,
    tokenizer: Path | None,
    form: str,
    out: Path,
    options: ExportOptions | None = None,
    progress: ProgressReporter | None = None,
) -> list[Path]:
    """Write a finished dataset as another program wants it; the same bytes each time, in memory that does not grow.

    Args:
        folder: the dataset's.
        tokenizer: the tokenizer's folder; by default `tokenizer` beside the dataset. fairseq needs it.
        form: `fairseq`, `tfrecord` or `arrow`.
        out: the folder to write to; new, empty, or holding an export of this form, which is replaced. Files that the
            user has added to that one stay.
        options: what can be chosen.
        progress: is told of each block.

    Returns:
        the files written, `export.json` last.

    Raises:
        ConfigError: no finished dataset or tokenizer, options of another form, a folder that holds something else, or
            special tokens that fairseq has not.
        MachineError: the files cannot be written.
    """
    dataset, chosen, writer = read_dataset(folder), options or ExportOptions(), _form(form)
    beside = folder.absolute().parent / "tokenizer"
    job = ExportJob(folder, dataset, tokenizer or beside, out, chosen, progress or SilentProgress())
    _refuse_options(form, writer, chosen)
    place = OutputDirectory(out, DATASET_EXPORT, files=FILES[form])
    place.check()
    _refuse_form(form, out)
    writer.check(job)
    with place.claim():
        place.remove_manifest()
        job.begin()
        splits, others = writer.write(job)
        written = [out / file.path for split in splits for file in split.files] + others
        further = [job.output(path, 0) for path in others]
        manifest = _manifest(dataset, form, chosen, splits, further)
        place.seal(manifest, keep={path.relative_to(out).as_posix() for path in written})
    return [*written, out / EXPORT]


def read_export_manifest(folder: Path) -> DatasetExportManifest:
    """Read what an export says of itself.

    Raises:
        ConfigError: there is no finished export there.
    """
    try:
        return decode_checksummed((folder / EXPORT).read_bytes(), DatasetExportManifest)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        fix = "give the folder of `jprep dataset export -o`; if it was stopped, run it again"
        raise ConfigError("there is no finished export here", where=str(folder), fix=fix) from error


def _form(form: str) -> ExportFormat:
    if form not in FORMATS:
        raise ConfigError(f"there is no form {form!r}", fix=f"choose one of {', '.join(FORMATS)}")
    module = importlib.import_module(f"{__name__}.{form}")  # Arrow is loaded only when it is written
    writer: ExportFormat = module.FORM
    return writer


def _refuse_options(form: str, writer: ExportFormat, options: ExportOptions) -> None:
    for name, value in options.given().items():
        if name not in writer.takes:
            takes = ", ".join(writer.takes)
            raise ConfigError(f"{form} has no option {name}", where=f"{name} = {value}", fix=f"it takes {takes}")
        if isinstance(value, int) and value < 1:
            raise ConfigError(f"{name} must be at least 1", where=f"{name} = {value}", fix="leave it out, or raise it")


def _refuse_form(form: str, out: Path) -> None:
    """Refuse a folder with an export of another form, finished or not."""
    for other in (each for each in FORMATS if each != form):
        finished = (out / EXPORT).exists() and read_export_manifest(out).form == other
        if finished or (out.is_dir() and OutputDirectory(out, DATASET_EXPORT, files=FILES[other]).files()):
            state = "finished" if finished else "unfinished"
            what = f"this directory holds a dataset that was exported as {other} ({state})"
            raise ConfigError(what, where=str(out), fix="choose another folder for -o")


def _manifest(
    dataset: DatasetManifest, form: str, options: ExportOptions, splits: list[ExportedSplit], further: list[Output]
) -> DatasetExportManifest:
    return DatasetExportManifest(
        jprep=version("jprep"),
        form=form,
        options=options.given(),
        dataset={"name": dataset.name, "signature": dataset.signature, "fingerprint": dataset.fingerprint},
        dtype=dataset.dtype,
        vocab_size=dataset.vocab_size,
        end=dataset.end,
        newline=dataset.newline,
        splits=splits,
        further=further,
    )
