"""The run directory: what is where, its job, and what of the data the run depends on. `docs/runs.md` describes it."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import msgspec

from jprep.dataset.spec import DATASET, read_dataset
from jprep.engine.fingerprint import plain
from jprep.engine.run import refuse_other
from jprep.errors import ConfigError, MismatchError
from jprep.io.atomic import remove_leftovers, sha256_of, write_atomic
from jprep.io.lock import locked
from jprep.tokenizer.card import CARD, read_card
from jprep.train.checkpoints import Checkpoints
from jprep.train.job import FORMAT, Job

JOB, DATA_LOCK, ENVIRONMENT, LOCK = "job.json", "data.lock.json", "env.json", "LOCK"
CHECKPOINTS, EXPORT, INIT = "checkpoints", "export", "init.safetensors"

FREE = ("log_every", "trackers", "max_restarts", "silent_minutes", "checkpoint", "validation")
"""Keys of `[train]` that no weight depends on: a run that has begun may go on with other ones."""

_FIELDS = ("format", "backend", "options", "model", "steps", "samples", "special", "labels")
_PLACES = ("data", "validation_data", "backend")


class DataFile(msgspec.Struct, frozen=True):
    """A file that a run reads.

    Attributes:
        bytes: its size.
        sha256: as its maker wrote it down, or of the file itself where nobody did.
    """

    bytes: int
    sha256: str


class DataLock(msgspec.Struct, frozen=True):
    """`data.lock.json`: what a run reads.

    Attributes:
        dataset: the dataset's fingerprint; "" where there is none.
        tokenizer: the tokenizer's.
        files: by name, e.g. `dataset/train.bin`.
    """

    dataset: str
    tokenizer: str
    files: dict[str, DataFile]


def open_run(run: Path, job: Job) -> None:
    """Make a run directory for a job, or see that the one that stands is the job's.

    What no weight depends on (`FREE`) and paths may have changed; the new ones are written down.

    Raises:
        MismatchError: it holds another job, or the dataset, the tokenizer or labelled rows have changed.
        MachineError: another process trains there, or it cannot be written.
        ConfigError: there is no dataset or no tokenizer.
    """
    with locked(run / LOCK):
        remove_leftovers(run)
        if (run / JOB).exists():
            refuse_other(_depends_on(job), _depends_on(read_job(run)), run)
            check_data(run, job)
        else:
            write_atomic(run / DATA_LOCK, _formatted(data_lock(run, job)))
        write_atomic(run / JOB, _formatted(job))


def read_job(run: Path) -> Job:
    """Read a run's job.

    Raises:
        ConfigError: there is no run.
        MismatchError: another version of jprep has made it.
    """
    try:
        job = msgspec.json.decode((run / JOB).read_bytes(), type=Job)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError("there is no run here", where=str(run), fix="`jprep train` makes one") from error
    except msgspec.MsgspecError as error:
        fix = "give `jprep train` another output directory"
        raise ConfigError(f"job.json cannot be read: {error}", where=str(run), fix=fix) from error
    if job.format != FORMAT:
        fix = "go on with the jprep that began it, or begin in another directory"
        raise MismatchError(f"a run of format {job.format}, and this jprep has {FORMAT}", where=str(run), fix=fix)
    return job


def data_lock(run: Path, job: Job) -> DataLock:
    """What the run reads, as it stands now.

    Of a dataset the hashes are those that it was packed with, so that it is not read for it; sizes are looked at.

    Raises:
        ConfigError: it is not there.
    """
    files: dict[str, DataFile] = {}
    dataset = tokenizer = ""
    if job.dataset:
        folder = run / job.dataset
        about = read_dataset(folder)
        dataset = about.fingerprint
        hashes = {file.path: file.sha256 for split in about.splits for file in split.files}
        hashes[DATASET] = ""
        files |= {f"dataset/{name}": _file(folder / name, sha256) for name, sha256 in hashes.items()}
    if job.tokenizer:
        folder = run / job.tokenizer
        card = read_card(folder)
        tokenizer = card.fingerprint
        files |= {f"tokenizer/{name}": _file(folder / name) for name in [CARD, *sorted(card.files)]}
    for path in [*job.train.data, *job.train.validation_data]:
        files[path] = _file(run / path)
    return DataLock(dataset, tokenizer, files)


def check_data(run: Path, job: Job) -> None:
    """See that what the run reads is what it was when it began.

    Raises:
        MismatchError: it is not; it says what has changed.
        ConfigError: it is not there.
    """
    try:
        theirs = msgspec.json.decode((run / DATA_LOCK).read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        fix = "begin in another directory"
        raise MismatchError("data.lock.json is not there or cannot be read", where=str(run), fix=fix) from error
    refuse_other(_by_content(plain(msgspec.structs.asdict(data_lock(run, job)))), _by_content(theirs), run)


def write_environment(run: Path) -> None:
    """Write `env.json`: this process's Python and the version of every distribution that it could import.

    Raises:
        MachineError: it cannot be written.
    """
    versions = {str(one.metadata["Name"]).lower(): one.version for one in importlib.metadata.distributions()}
    about = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    fields = {**about, "packages": dict(sorted(versions.items()))}
    write_atomic(run / ENVIRONMENT, msgspec.json.format(msgspec.json.encode(fields), indent=1))


def checkpoints_of(run: Path, job: Job) -> Checkpoints:
    """A run's checkpoints."""
    keep = job.train.checkpoint
    return Checkpoints(run / CHECKPOINTS, job.fingerprint, keep.keep_last, keep.keep_best)


def _depends_on(job: Job) -> dict[str, Any]:
    """All of a job that its weights and the files of its checkpoints depend on."""
    fields = plain(msgspec.structs.asdict(job))
    train = {key: value for key, value in fields["train"].items() if key not in (*FREE, *_PLACES)}
    train["model"] = {key: value for key, value in train["model"].items() if key != "init"}  # a path
    kept = {key: fields[key] for key in _FIELDS}
    return {**kept, "train": train, "fingerprint": job.fingerprint}


def _by_content(fields: dict[str, Any]) -> dict[str, Any]:
    """Labelled files are told apart by their place in the job, for their paths may change."""
    files = sorted(fields["files"].items())
    made = {name: file for name, file in files if name.startswith(("dataset/", "tokenizer/"))}
    return {**fields, "files": made, "data": sorted(file["sha256"] for name, file in files if name not in made)}


def _file(path: Path, sha256: str = "") -> DataFile:
    try:
        return DataFile(path.stat().st_size, sha256 or sha256_of(path))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error


def _formatted(fields: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(fields), indent=1)
