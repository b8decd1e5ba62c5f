"""`data.lock.json`: the files that a run reads, and that they are what they were when it began."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.dataset.manifest import DATASET_JSON, read_dataset
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.runner import refuse_mismatch
from jprep.errors import ConfigError, MachineError, MismatchError
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.retry import retry_transient
from jprep.io.verified_files import FileState
from jprep.tokenizer.card import CARD_JSON, read_card
from jprep.train.job.config import Job
from jprep.train.run.log import Say, on_stderr

DATA_LOCK, VERIFIED = "data.lock.json", "verified.json"

_REPAIR = "repair the file system, then run the same command again"
_WORTH_A_WORD = 1 << 30  # bytes to be read


class DataFile(msgspec.Struct, frozen=True):
    """A file that a run reads: its size and its SHA-256."""

    bytes: int
    sha256: str


class DataLock(msgspec.Struct, frozen=True):
    """`data.lock.json`: what a run reads.

    Attributes:
        dataset: the dataset's fingerprint; "" where there is none.
        tokenizer: the tokenizer's.
        files: by name, e.g. `dataset/train.bin`; of labelled rows by key and number in the job, `data/0`.
    """

    dataset: str
    tokenizer: str
    files: dict[str, DataFile]


class _Verified(msgspec.Struct, frozen=True):
    """How a file looked when it was read whole, and the SHA-256 of what was read."""

    look: FileState
    sha256: str


class _Remembered(msgspec.Struct, frozen=True):
    """`verified.json`."""

    files: dict[str, _Verified]


class _Source(NamedTuple):
    """A file, its maker's SHA-256 of it ("" where nobody wrote it down), and what makes it again."""

    path: Path
    sha256: str = ""
    again: str = "bring back the file as it was"


class _Sources(NamedTuple):
    fingerprints: dict[str, str]
    files: dict[str, _Source]


def write_data_lock(run: Path, job: Job, say: Say = on_stderr) -> None:
    """Write down what the run reads, as it stands now. Every file is read once for it.

    Raises:
        MismatchError: a file is not what its maker wrote, or the model's vocabulary is not the dataset's.
        ConfigError: one is not there.
        MachineError: the disk is full or not writable.
    """
    fingerprints, files = _sources(run, job)
    lock = DataLock(**fingerprints, files=_read(run, files, say))
    write_atomic(run / DATA_LOCK, encode_checksummed(lock, indent=1))


def read_data_lock(run: Path) -> DataLock:
    """What the run read when it began.

    Raises:
        MismatchError: it is missing or damaged.
        MachineError: it cannot be read.
    """
    fix = "bring it back from a copy, or give `jprep train` another output directory"
    try:
        return decode_checksummed(retry_transient((run / DATA_LOCK).read_bytes, run / DATA_LOCK, _REPAIR), DataLock)
    except OSError as error:
        raise MismatchError("data.lock.json is missing", where=str(run), fix=fix) from error
    except ValueError as error:
        raise MismatchError(f"data.lock.json is damaged: {error}", where=str(run), fix=fix) from error


def check_data(run: Path, job: Job, say: Say = on_stderr) -> None:
    """See that what the run reads is what it was when it began.

    A file is read only where its size, time or inode is not what it was when it was read last.

    Raises:
        MismatchError: it is not; it says what has changed.
        ConfigError: it is not there.
    """
    theirs = read_data_lock(run)
    fingerprints, files = _sources(run, job)
    fix = "give the dataset and the tokenizer that the run began with, or another output directory"
    refuse_mismatch(fingerprints, {"dataset": theirs.dataset, "tokenizer": theirs.tokenizer}, run, fix)
    for name, file in _read(run, files, say).items():
        if file != theirs.files.get(name):
            fix = "bring back the file as it was, or begin in another directory"
            raise MismatchError(f"{name} is not what the run began with", where=str(files[name].path), fix=fix)


def _sources(run: Path, job: Job) -> _Sources:
    fingerprints, files = {"dataset": "", "tokenizer": ""}, {}
    if job.dataset:
        folder = (run / job.dataset).resolve()
        about = read_dataset(folder)
        fingerprints["dataset"] = about.fingerprint
        if job.model.get("vocab_size", about.vocab_size) != about.vocab_size:
            what = f"the model has {job.model['vocab_size']} ids, and the dataset {about.vocab_size}"
            raise MismatchError(what, where=str(folder), fix="begin in another directory")
        files[f"dataset/{DATASET_JSON}"] = _Source(folder / DATASET_JSON)
        for file in (file for split in about.splits for file in split.files):
            again = "bring back the file as it was, or `jprep dataset pack … --restart`"
            files[f"dataset/{file.path}"] = _Source(folder / file.path, file.sha256, again)
    if job.tokenizer:
        folder = (run / job.tokenizer).resolve()
        card = read_card(folder)
        fingerprints["tokenizer"] = card.fingerprint
        files[f"tokenizer/{CARD_JSON}"] = _Source(folder / CARD_JSON)
        files |= {f"tokenizer/{name}": _Source(folder / name, card.files[name]) for name in sorted(card.files)}
    for key in ("data", "validation_data"):
        files |= {
            f"{key}/{number}": _Source((run / path).resolve()) for number, path in enumerate(getattr(job.train, key))
        }
    return _Sources(fingerprints, files)


def _read(run: Path, files: Mapping[str, _Source], say: Say) -> dict[str, DataFile]:
    """Size and hash of each file; those that look as they did when they were read last are not read again."""
    verified, now = _remembered(run), time.time_ns()
    looks = {name: _look(source.path) for name, source in files.items()}
    due = [name for name in files if name not in verified or verified[name].look != looks[name]]
    if (size := sum(looks[name].size for name in due)) >= _WORTH_A_WORD:
        say(f"reading {size / 1e9:.1f} GB of data, to see that it is what was written; unchanged files only once")
    for name in due:
        verified[name] = _Verified(looks[name], _hash(files[name].path))
    for name, source in files.items():
        if source.sha256 and verified[name].sha256 != source.sha256:
            raise MismatchError(f"{name} is not what was written", where=str(source.path), fix=source.again)
    settled = {name: one for name, one in verified.items() if one.look.is_settled(now)}
    if due and settled:
        with contextlib.suppress(MachineError):  # what is not remembered is read again
            write_atomic(run / VERIFIED, encode_checksummed(_Remembered(settled), indent=1))
    return {name: DataFile(looks[name].size, verified[name].sha256) for name in files}


def _remembered(run: Path) -> dict[str, _Verified]:
    try:
        return decode_checksummed((run / VERIFIED).read_bytes(), _Remembered).files
    except (OSError, ValueError):  # then everything is read again
        return {}


def _look(path: Path) -> FileState:
    try:
        return FileState.of(retry_transient(path.stat, path, _REPAIR))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error


def _hash(path: Path) -> str:
    try:
        return retry_transient(lambda: file_sha256(path), path, _REPAIR)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error
