"""The rows that an evaluation measures: what they are, and that they fit the run."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.dataset.conversations.reader import SUFFIXES as CHAT_SUFFIXES
from jprep.dataset.labelled.reader import SUFFIXES as LABELLED_SUFFIXES
from jprep.dataset.labelled.reader import refuse_directory
from jprep.dataset.manifest import (
    DATASET_JSON,
    TEST,
    TRAIN,
    VALIDATION,
    DatasetManifest,
    find_split,
    read_dataset,
    refuse_other_tokenizer,
    verify_split,
)
from jprep.dataset.mix import MixConfig
from jprep.dataset.sampling.masking import check_words
from jprep.dataset.sampling.sources import source_ranges
from jprep.errors import ConfigError, JprepError, MismatchError
from jprep.train.job.config import CheckpointConfig, Job, ValidationConfig
from jprep.train.run.data_lock import DataLock, check_locked, hash_data, read_data_lock
from jprep.train.run.directory import job_path

HELD_OUT = "held-out rows"
"""The split of the files that a run was validated on."""


class EvaluationData(NamedTuple):
    """The rows that are measured.

    Attributes:
        job: the run's job, changed to read them; its paths are absolute.
        job_split: their split in this job, for `jprep.train.worker.batches.Batches`.
        name: the name of the dataset, or the names of the files.
        paths: the dataset or the files.
        split: the split of the dataset; `HELD_OUT`, `fold 0 of 5`, or "" for other files.
        made_from: the fingerprint of the dataset, or the SHA-256 of each file.
        seen: whether the run was trained on them.
        tokens_per_byte: tokens of the split for each byte of its text; 0 for files, and for a single source.
        source: the source of the dataset; "" for all.
    """

    job: Job
    job_split: str
    name: str
    paths: list[Path]
    split: str
    made_from: list[str]
    seen: bool = False
    tokens_per_byte: float = 0.0
    source: str = ""


def choose_data(run: Path, job: Job, given: Sequence[Path] = (), split: str = "", source: str = "") -> EvaluationData:
    """Return the rows to measure, after checking the hashes of their files.

    Args:
        run: the run directory.
        job: its job.
        given: a dataset, for a job of packed text; else files like those of `train.data`. By default the run's own
            dataset, or the rows that it held out for validation.
        split: the split of a dataset; by default `test`, or `validation` if there is no test split.
        source: the source of the dataset; by default all.

    Raises:
        ConfigError: there are no such rows, or they do not fit the run.
        MismatchError: data of the run has changed since the training, or a file of a dataset is damaged.
    """
    lock = read_data_lock(run)
    if not job.train.data:
        return _from_dataset(run, job, lock, given, split, source)
    for option, value in (("--split", split), ("--source", source)):
        if value:
            what = f"{option} is for datasets, and the task {job.train.task} has files with rows"
            raise ConfigError(what, where=option, fix="give the rows to measure with --data FILE")
    return _from_files(run, job, lock, given) if given else _held_out(run, job, lock)


def has_test_split(run: Path, job: Job) -> bool:
    """Return whether the dataset of a run has a test split, on which it can be evaluated."""
    with contextlib.suppress(JprepError):
        return bool(job.dataset) and any(
            split.name == TEST and split.tokens for split in read_dataset(job_path(run, job.dataset)).splits
        )
    return False


def _from_dataset(run: Path, job: Job, lock: DataLock, given: Sequence[Path], name: str, source: str) -> EvaluationData:
    folder = _dataset_folder(run, job, given)
    dataset = read_dataset(folder)
    own = dataset.fingerprint == lock.dataset
    if not given and not own:
        what = "the dataset was packed again since the run was trained on it"
        fix = f"restore it; or measure on it as it is: --data {shlex.quote(str(folder))}"
        raise MismatchError(what, where=str(folder), fix=fix)
    _check_dataset(run, job, dataset, folder, lock)
    chosen = find_split(dataset, name or _default_split(dataset, folder), folder)
    if not chosen.tokens:
        raise ConfigError(f"the split {chosen.name} is empty", where=str(folder), fix="give another --split")
    verify_split(folder, chosen)
    size = dataset.counts.get(f"{chosen.name}.bytes", 0)
    found = EvaluationData(
        job=_changed(job, dataset=str(folder)),
        job_split=chosen.name,
        name=dataset.name,
        paths=[folder],
        split=chosen.name,
        made_from=[dataset.fingerprint],
        seen=own and chosen.name == TRAIN,
        tokens_per_byte=chosen.tokens / size if size else 0.0,
    )
    return _of_source(found, dataset, source) if source else found


def _of_source(found: EvaluationData, dataset: DatasetManifest, name: str) -> EvaluationData:
    """Return the rows of one source of a dataset: a mixture that leaves out the others."""
    sizes = {one.name: one.stop - one.start for one in source_ranges(dataset, found.split)}
    if not sizes.get(name):
        what = f"the {found.split} split has no text of the source {name!r}"
        having = ", ".join(each for each, size in sizes.items() if size)
        raise ConfigError(what, where=str(found.paths[0]), fix=f"give another --source: {having}")
    mix = MixConfig(repeats={each: float(each == name) for each in sizes})
    job = msgspec.structs.replace(found.job, mix=mix)
    return found._replace(job=job, source=name, tokens_per_byte=0.0)


def _dataset_folder(run: Path, job: Job, given: Sequence[Path]) -> Path:
    if len(given) > 1:
        raise ConfigError(f"expected one dataset, got {len(given)}", where="--data", fix="give one of them")
    if given and not (given[0] / DATASET_JSON).exists():
        what = f"expected a dataset, as the task of the run is {job.train.task}"
        fix = "give a directory that `jprep dataset pack` has written, with the tokenizer of the run"
        raise ConfigError(what, where=str(given[0]), fix=fix)
    return given[0].resolve() if given else job_path(run, job.dataset)


def _check_dataset(run: Path, job: Job, dataset: DatasetManifest, folder: Path, lock: DataLock) -> None:
    """Check that a dataset fits the run."""
    fix = f"pack it with the tokenizer that the run was trained with, in {job_path(run, job.tokenizer)}"
    refuse_other_tokenizer(dataset, lock.tokenizer, where=folder, fix=fix)
    if job.train.task in ("mlm", "rtd") and job.train.masking.whole_word:
        check_words(dataset.made_from, str(folder), "pack a corpus with words, as that of the run has")


def _default_split(dataset: DatasetManifest, folder: Path) -> str:
    filled = [split.name for split in dataset.splits if split.tokens]
    for name in (TEST, VALIDATION):
        if name in filled:
            return name
    fix = "pack it with [dataset] test = 0.005, or give --split train"
    raise ConfigError("this dataset has neither a test nor a validation split", where=str(folder), fix=fix)


def _from_files(run: Path, job: Job, lock: DataLock, given: Sequence[Path]) -> EvaluationData:
    """Return given files, all of whose rows are measured."""
    for path in given:
        refuse_directory(path, CHAT_SUFFIXES if job.chat else LABELLED_SUFFIXES)
    hashes = [hash_data(path) for path in given]
    if len(set(hashes)) < len(hashes):
        raise ConfigError("the same file is given twice", where="--data", fix="give it once")
    return _whole_files(run, job, lock, given, "", hashes)


def _held_out(run: Path, job: Job, lock: DataLock) -> EvaluationData:
    """Return the rows that the run held out for validation: its own files for that, or a fold."""
    train = job.train
    if not train.validation_data and not train.labelled.folds:
        what, fix = "this run has held out no rows", "give the rows to measure: --data FILE"
        raise ConfigError(what, where=str(run), fix=fix)
    key = "validation_data" if train.validation_data else "data"
    paths = [job_path(run, path) for path in getattr(train, key)]
    if missing := next((path for path in paths if not path.exists()), None):
        what, fix = "a file of the run does not exist", "restore it, or give other rows: --data FILE"
        raise ConfigError(what, where=str(missing), fix=fix)
    hashes = check_locked(lock, {f"{key}/{number}": path for number, path in enumerate(paths)})
    if train.validation_data:
        return _whole_files(run, job, lock, paths, HELD_OUT, hashes)
    changed = _changed(job, _tokenizer(run, job, lock), data=[str(path) for path in paths])
    split = f"fold {train.fold or 0} of {train.labelled.folds}"
    return EvaluationData(changed, VALIDATION, _names(paths), paths, split, hashes)


def _whole_files(
    run: Path, job: Job, lock: DataLock, paths: Sequence[Path], split: str, hashes: list[str]
) -> EvaluationData:
    """Return files all of whose rows are measured: the training split of a job that reads them."""
    trained = {file.sha256 for name, file in lock.files.items() if name.startswith("data/")}
    files = [str(path.resolve()) for path in paths]
    labelled = msgspec.structs.replace(job.train.labelled, fold="", folds=0, stratify="", bins=0)
    tokenizer = _tokenizer(run, job, lock)
    changed = _changed(job, tokenizer, data=files, validation_data=[], labelled=labelled, fold=None)
    seen = not trained.isdisjoint(hashes)
    return EvaluationData(changed, TRAIN, _names(paths), [*paths], split, hashes, seen)


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _tokenizer(run: Path, job: Job, lock: DataLock) -> str:
    """Return the folder of the run's tokenizer, after checking that it has not changed."""
    folder, prefix = job_path(run, job.tokenizer), "tokenizer/"
    check_locked(lock, {name: folder / name.removeprefix(prefix) for name in lock.files if name.startswith(prefix)})
    return str(folder)


def _changed(job: Job, tokenizer: str = "", *, dataset: str = "", **train: Any) -> Job:
    """Return the job that reads other data, on this machine alone, without what only a training needs."""
    section = msgspec.structs.replace(
        job.train,
        stages=[],
        drop_last=False,
        class_weights="",
        z_loss=0.0,
        hosts="none",
        validation=ValidationConfig(),
        checkpoint=CheckpointConfig(),
        **train,
    )
    return msgspec.structs.replace(job, train=section, dataset=dataset, tokenizer=tokenizer, mix=None, class_weights=[])
