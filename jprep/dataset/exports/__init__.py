"""A dataset in the forms of other programs: fairseq's data-bin, TFRecord, Arrow."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import msgspec

from jprep.dataset.exports.writing import EXPORT, Export, Form, Job, Options, Written
from jprep.dataset.spec import DATASET, Dataset, read_dataset
from jprep.engine.run import Progress
from jprep.engine.stage import Output
from jprep.errors import ConfigError
from jprep.io.atomic import MARK, write_atomic
from jprep.io.lock import locked

FORMS = ("fairseq", "tfrecord", "arrow")


def export(
    folder: Path,
    tokenizer: Path | None,
    form: str,
    out: Path,
    options: Options | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a finished dataset as another program wants it; the same bytes each time, in memory that does not grow.

    Args:
        folder: the dataset's.
        tokenizer: the tokenizer's folder; by default `tokenizer` beside the dataset. fairseq needs it.
        form: `fairseq`, `tfrecord` or `arrow`.
        out: the folder to write to. What an earlier export of this form left there goes; files of the user's stay.
        options: what can be chosen.
        progress: is told of each block.

    Returns:
        the files written, `export.json` last.

    Raises:
        ConfigError: no finished dataset or tokenizer, options of another form, a folder that holds something else, or
            special tokens that fairseq has not.
        MachineError: the files cannot be written.
    """
    from jprep.corpus.corpus import Silent

    dataset, chosen, writer = read_dataset(folder), options or Options(), _form(form)
    beside = folder.absolute().parent / "tokenizer"
    job = Job(folder, dataset, tokenizer or beside, out, chosen, progress or Silent())
    _refuse_options(form, writer, chosen)
    _refuse_place(form, out)
    writer.check(job)
    with locked(out / ".lock"):
        (out / EXPORT).unlink(missing_ok=True)
        _remove(out, [f"{pattern}{MARK}*" for pattern in (*writer.patterns, EXPORT)])
        job.begin()
        splits, others = writer.write(job)
        written = [out / file.path for split in splits for file in split.files] + others
        _remove(out, writer.patterns, but=written)
        further = [job.output(path, 0) for path in others]
        write_atomic(out / EXPORT, _manifest(dataset, form, chosen, splits, further))
    return [*written, out / EXPORT]


def read_export(folder: Path) -> Export:
    """Read what an export says of itself.

    Raises:
        ConfigError: there is no finished export there.
    """
    try:
        return msgspec.json.decode((folder / EXPORT).read_bytes(), type=Export)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        fix = "give the folder of `jprep dataset export -o`; if it was stopped, run it again"
        raise ConfigError("there is no finished export here", where=str(folder), fix=fix) from error


def _form(form: str) -> Form:
    if form not in FORMS:
        raise ConfigError(f"there is no form {form!r}", fix=f"choose one of {', '.join(FORMS)}")
    module = importlib.import_module(f"{__name__}.{form}")  # Arrow is loaded only when it is written
    writer: Form = module.FORM
    return writer


def _refuse_options(form: str, writer: Form, options: Options) -> None:
    for name, value in options.given().items():
        if name not in writer.takes:
            takes = ", ".join(writer.takes)
            raise ConfigError(f"{form} has no option {name}", where=f"{name} = {value}", fix=f"it takes {takes}")
        if isinstance(value, int) and value < 1:
            raise ConfigError(f"{name} must be at least 1", where=f"{name} = {value}", fix="leave it out, or raise it")


def _refuse_place(form: str, out: Path) -> None:
    if (out / DATASET).exists():  # fairseq's train.bin would take the place of the dataset's own
        raise ConfigError("a dataset lies here", where=str(out), fix="choose another folder for -o")
    if (out / EXPORT).exists() and (there := read_export(out).form) != form:
        raise ConfigError(f"an export as {there} lies here", where=str(out), fix="choose another folder for -o")


def _remove(out: Path, patterns: Iterable[str], but: Iterable[Path] = ()) -> None:
    """Delete this form's own files, and no others: the folder may hold more than exports."""
    for path in {path for pattern in patterns for path in out.glob(pattern)} - set(but):
        path.unlink()


def _manifest(dataset: Dataset, form: str, options: Options, splits: list[Written], further: list[Output]) -> bytes:
    manifest = Export(
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
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)
