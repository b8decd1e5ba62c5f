"""`data.lock.json`: the hashes of all files that a run reads, and the check that they have not changed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.dataset.manifest import DATASET_JSON, read_dataset
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.runner import refuse_mismatch
from jprep.errors import ConfigError, MachineError, MismatchError
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.hashing import FileState
from jprep.io.retry import retry_transient
from jprep.tokenizer.card import CARD_JSON, read_card
from jprep.train.job.config import Job
from jprep.train.job.fingerprint import OTHER_RUN
from jprep.train.run.log import Say, on_stderr

DATA_LOCK, VERIFIED = "data.lock.json", "verified.json"

_REPAIR = "repair the file system, then run the same command again"
_PACKED = ("dataset/", "tokenizer/")  # files that jprep has named
_NOTICE_BYTES = 1 << 30  # tell the user before reading so much


class DataFile(msgspec.Struct, frozen=True):
    """A file that a run reads.

    Attributes:
        bytes: its size.
        sha256: its SHA-256.
    """

    bytes: int
    sha256: str


class DataLock(msgspec.Struct, frozen=True):
    """`data.lock.json`: what a run reads.

    Attributes:
        dataset: the dataset's fingerprint; "" without a dataset.
        tokenizer: the tokenizer's fingerprint.
        files: files by name, e.g. `dataset/train.bin`; files of labelled rows by key and index in the job, `data/0`.
    """

    dataset: str
    tokenizer: str
    files: dict[str, DataFile]


class _Verified(msgspec.Struct, frozen=True):
    """A file that was hashed: its state (size, times, inode) at that time, and its SHA-256."""

    look: FileState
    sha256: str


class _VerifiedFiles(msgspec.Struct, frozen=True):
    """`verified.json`: the files that need no new hash while their state is unchanged."""

    files: dict[str, _Verified]


class _Source(NamedTuple):
    """A file to hash.

    Attributes:
        path: its path.
        sha256: the SHA-256 that the command that wrote it recorded; "" if there is none.
        again: how to get it back, for errors.
    """

    path: Path
    sha256: str = ""
    again: str = "restore the file"


class _Sources(NamedTuple):
    fingerprints: dict[str, str]
    files: dict[str, _Source]


def write_data_lock(run: Path, job: Job, say: Say = on_stderr) -> None:
    """Record the hashes of all files that the run reads. Every file is read once.

    Args:
        run: the run directory.
        job: the job.
        say: called with a message for the user.

    Raises:
        MismatchError: a file differs from what its manifest records, or the model and the dataset differ in vocabulary.
        ConfigError: a file does not exist.
        MachineError: the disk is full or not writable.
    """
    fingerprints, files = _sources(run, job)
    lock = DataLock(**fingerprints, files=_read(run, files, say))
    write_atomic(run / DATA_LOCK, encode_checksummed(lock, indent=1))


def read_data_lock(run: Path) -> DataLock:
    """Read the data lock of a run.

    Raises:
        MismatchError: it is missing or damaged.
        MachineError: it cannot be read.
    """
    fix = f"restore it from a backup, or use {OTHER_RUN}"
    try:
        return decode_checksummed(retry_transient((run / DATA_LOCK).read_bytes, run / DATA_LOCK, _REPAIR), DataLock)
    except OSError as error:
        raise MismatchError("data.lock.json is missing", where=str(run), fix=fix) from error
    except ValueError as error:
        raise MismatchError(f"data.lock.json is damaged: {error}", where=str(run), fix=fix) from error


def check_data(run: Path, job: Job, say: Say = on_stderr, *, dry: bool = False, record: bool = True) -> None:
    """Check that the files that the run reads are those that it began with.

    A file is hashed again only if its size, times or inode have changed since it was hashed last.

    Args:
        run: the run directory.
        job: the job.
        say: called with a message for the user.
        dry: hash and write nothing: of files that would have to be hashed, only the size is compared.
        record: whether to record which files were hashed.

    Raises:
        MismatchError: a file has changed; the message names it.
        ConfigError: a file does not exist.
    """
    lock = read_data_lock(run)
    fingerprints, files = _sources(run, job)
    fix = f"use the dataset and the tokenizer that the run began with, {OTHER_RUN}"
    refuse_mismatch(fingerprints, {"dataset": lock.dataset, "tokenizer": lock.tokenizer}, run, fix)
    fix = f"use the options of the first command again, {OTHER_RUN}"
    refuse_mismatch(_number_of_files(files), _number_of_files(lock.files), run, fix)
    fix = f"restore the file, or use {OTHER_RUN}"
    found = _without_reading(run, files, lock) if dry else _read(run, files, say, record=record)
    for name, file in found.items():
        if file != lock.files.get(name):
            path = files[name].path
            shown = name if name.startswith(_PACKED) else path.name
            raise MismatchError(f"{shown} is not what the run began with", where=str(path), fix=fix)


def check_locked(lock: DataLock, paths: Mapping[str, Path]) -> list[str]:
    """Check that some of the files that a run reads are those that it began with, and return their SHA-256.

    Args:
        lock: the run's data lock.
        paths: the files by their names in it, e.g. `validation_data/0`.

    Raises:
        MismatchError: a file has changed.
        ConfigError: a file does not exist.
    """
    hashes = [hash_data(path) for path in paths.values()]
    for (name, path), found in zip(paths.items(), hashes, strict=True):
        if name not in lock.files or lock.files[name].sha256 != found:
            what = f"{path.name} is not what the run began with"
            raise MismatchError(what, where=str(path), fix="restore the file")
    return hashes


def _number_of_files(names: Iterable[str]) -> dict[str, int]:
    """Return how many files of rows there are, by the key that names them."""
    keys = [name.partition("/")[0] for name in names]
    return {f"files in train.{key}": keys.count(key) for key in ("data", "validation_data")}


def _sources(run: Path, job: Job) -> _Sources:
    fingerprints, files = {"dataset": "", "tokenizer": ""}, {}
    if job.dataset:
        folder = (run / job.dataset).resolve()
        about = read_dataset(folder)
        fingerprints["dataset"] = about.fingerprint
        if job.model.get("vocab_size", about.vocab_size) < about.vocab_size:
            what = f"the model has {job.model['vocab_size']} ids, and the dataset {about.vocab_size}"
            raise MismatchError(what, where=str(folder), fix="use another output directory")
        files[f"dataset/{DATASET_JSON}"] = _Source(folder / DATASET_JSON)
        for file in (file for split in about.splits for file in split.files):
            again = "restore the file, or pack the dataset again with --restart"
            files[f"dataset/{file.path}"] = _Source(folder / file.path, file.sha256, again)
    if job.tokenizer:
        folder = (run / job.tokenizer).resolve()
        card = read_card(folder)
        fingerprints["tokenizer"] = card.fingerprint
        if not card.external:
            files[f"tokenizer/{CARD_JSON}"] = _Source(folder / CARD_JSON)
        files |= {f"tokenizer/{name}": _Source(folder / name, card.files[name]) for name in sorted(card.files)}
    for key in ("data", "validation_data"):
        files |= {
            f"{key}/{number}": _Source((run / path).resolve()) for number, path in enumerate(getattr(job.train, key))
        }
    return _Sources(fingerprints, files)


def _without_reading(run: Path, files: Mapping[str, _Source], lock: DataLock) -> dict[str, DataFile]:
    """Return size and hash of each file; of one that would have to be read, the hash that the run began with."""
    verified, found = _verified_files(run), dict[str, DataFile]()
    for name, source in files.items():
        look, known = _look(source.path), verified.get(name)
        begun = lock.files[name].sha256 if name in lock.files else ""
        found[name] = DataFile(look.size, known.sha256 if known and known.look == look else begun)
    return found


def _read(run: Path, files: Mapping[str, _Source], say: Say, *, record: bool = True) -> dict[str, DataFile]:
    """Return size and hash of each file. Files whose state is unchanged since they were hashed are not read again."""
    verified, now = _verified_files(run), time.time_ns()
    looks = {name: _look(source.path) for name, source in files.items()}
    due = [name for name in files if name not in verified or verified[name].look != looks[name]]
    if (size := sum(looks[name].size for name in due)) >= _NOTICE_BYTES:
        say(f"checking {size / 1e9:.1f} GB of data; unchanged files are not read again next time")
    for name in due:
        verified[name] = _Verified(looks[name], hash_data(files[name].path))
    for name, source in files.items():
        if source.sha256 and verified[name].sha256 != source.sha256:
            raise MismatchError(f"{name} was changed or damaged", where=str(source.path), fix=source.again)
    settled = {name: one for name, one in verified.items() if one.look.is_settled(now)}
    if due and settled and record:
        with contextlib.suppress(MachineError):  # only a cache: without it, files are hashed again
            write_atomic(run / VERIFIED, encode_checksummed(_VerifiedFiles(settled), indent=1))
    return {name: DataFile(looks[name].size, verified[name].sha256) for name in files}


def _verified_files(run: Path) -> dict[str, _Verified]:
    try:
        return decode_checksummed((run / VERIFIED).read_bytes(), _VerifiedFiles).files
    except (OSError, ValueError):  # then all files are hashed again
        return {}


def _look(path: Path) -> FileState:
    try:
        return FileState.of(retry_transient(path.stat, path, _REPAIR))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error


def hash_data(path: Path) -> str:
    """Return the SHA-256 of a file of data.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return retry_transient(lambda: file_sha256(path), path, _REPAIR)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error
