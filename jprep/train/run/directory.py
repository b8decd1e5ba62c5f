"""The run directory: what is where, and its job. `docs/runs.md` describes it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.fingerprint import plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import RUN
from jprep.engine.runner import refuse_mismatch
from jprep.errors import ConfigError, MismatchError
from jprep.io.atomic import write_atomic
from jprep.io.retry import retry_transient
from jprep.train.backend import Plan
from jprep.train.job.config import FORMAT, UNFINGERPRINTED_KEYS, Job
from jprep.train.job.fingerprint import extend_job
from jprep.train.job.renamed import rename_job_options
from jprep.train.run.attempt import RANKS
from jprep.train.run.checkpoints import CheckpointStore
from jprep.train.run.data_lock import check_data, write_data_lock
from jprep.train.run.log import Say, on_stderr

JOB, PLAN, ENVIRONMENT, LOCK = "job.json", "plan.json", "env.json", "LOCK"
LISTS = "lists"
"""The folder of a run for lists of samples, where the dataset's own may not be written to."""
CHECKPOINTS, EXPORT, INIT, INIT_HASH = "checkpoints", "export", "init.safetensors", "init.sha256"

_FIELDS = ("format", "model", "steps", "samples", "special", "labels")
_PLACES = ("data", "validation_data", "backend")
_OTHER_JOB = "give the first command's options again, or another output directory"


def output_directory(run: Path) -> OutputDirectory:
    """Return the directory of a run, which knows the names of its files."""
    folders = tuple(f"{folder}/*" for folder in (CHECKPOINTS, LISTS, RANKS))
    return OutputDirectory(run, RUN, files=("*.json", INIT, INIT_HASH, *folders))


def open_run(run: Path, job: Job, say: Say = on_stderr) -> None:
    """Make a run directory for a job, or see that the one that stands is the job's.

    What no weight depends on (`UNFINGERPRINTED_KEYS`), paths, the backend and its options may have changed, but
    for options that change what is computed; the new ones are recorded. A job may have more steps than the run
    began with, if its schedule keeps the rates of the steps that are done: see `jprep.train.job.fingerprint`.

    Raises:
        MismatchError: it holds another job, or the dataset, the tokenizer or labelled rows have changed.
        MachineError: another process trains there, or it cannot be written.
        ConfigError: the directory holds something else than a run, or there is no dataset or no tokenizer.
    """
    out = output_directory(run)
    with out.claim():
        if (run / JOB).exists():
            job = _continued(job, run, say)
        else:
            write_data_lock(run, job, say)
        out.seal(job)


def read_job(run: Path) -> Job:
    """Read a run's job.

    Raises:
        ConfigError: there is no run, or its job.json is damaged.
        MachineError: it cannot be read.
        MismatchError: another version of jprep has made it.
    """
    try:
        job = decode_checksummed(
            retry_transient((run / JOB).read_bytes, run / JOB, "repair the file system, then try again"), Job
        )
    except OSError as error:
        raise ConfigError("there is no run here", where=str(run), fix="`jprep train` makes one") from error
    except ValueError as error:
        fix = "bring job.json back from a copy, or give `jprep train` another output directory"
        raise ConfigError(f"job.json is damaged: {error}", where=str(run), fix=fix) from error
    if job.format != FORMAT:
        fix = "go on with the jprep that began it, or begin in another directory"
        raise MismatchError(f"a run of format {job.format}, and this jprep has {FORMAT}", where=str(run), fix=fix)
    return rename_job_options(job)


def write_plan(run: Path, plan: Plan) -> None:
    """Write `plan.json`: how the worker of an attempt is started, for those that are started on other machines.

    Raises:
        MachineError: it cannot be written.
    """
    write_atomic(run / PLAN, encode_checksummed(plan, indent=1))


def read_plan(run: Path) -> Plan:
    """How the worker of the newest attempt is started; the attempt's own variables are among the plan's.

    Raises:
        OSError: nobody has started one, or it cannot be read.
        ConfigError: another version of jprep has written it.
    """
    try:
        return decode_checksummed((run / PLAN).read_bytes(), Plan)
    except ValueError as error:
        raise ConfigError(f"{PLAN} is damaged: {error}", where=str(run), fix="`jprep train` writes it") from error


def write_environment(run: Path) -> None:
    """Write `env.json`: this process's Python and the version of every distribution that it could import.

    Raises:
        MachineError: it cannot be written.
    """
    versions = {str(one.metadata["Name"]).lower(): one.version for one in importlib.metadata.distributions()}
    about = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    fields = {**about, "packages": dict(sorted(versions.items()))}
    write_atomic(run / ENVIRONMENT, msgspec.json.format(msgspec.json.encode(fields), indent=1))


def checkpoints_of(run: Path, job: Job) -> CheckpointStore:
    """A run's checkpoints."""
    keep = job.train.checkpoint
    return CheckpointStore(run / CHECKPOINTS, job.fingerprint, keep.keep_last, keep.keep_best, job.earlier)


def sample_lists_folder(dataset: Path, run: Path) -> Path:
    """Where lists of a dataset's samples go: beside it, or into the run where it may not be written to."""
    return dataset if os.access(dataset, os.W_OK) else run / LISTS


def _continued(job: Job, run: Path, say: Say) -> Job:
    """Return the job as the run that stands goes on with it.

    Raises:
        MismatchError: it is another job's.
        ConfigError: job.json is damaged, and no checkpoint says that it was the same.
    """
    try:
        before = read_job(run)
    except ConfigError:
        store = checkpoints_of(run, job)
        if not any(map(store.owns, store.committed()[-1:])):
            raise
        check_data(run, job, say)
        say(f"{JOB} is damaged, and is written again: the newest checkpoint is this job's")
        return job
    job = _same_or_longer(job, before, run, say)
    if before.backend != job.backend:
        say(f"this run was begun with {before.backend}, and goes on with {job.backend}")
    return job


def _same_or_longer(job: Job, theirs: Job, run: Path, say: Say) -> Job:
    """Return the job as the run goes on with it.

    Raises:
        MismatchError: the run is another job's. Data is looked at before fingerprints, which name nothing.
    """
    if longer := extend_job(job, theirs, str(run)):
        check_data(run, longer, say)
        say(f"this run had {theirs.steps:,} steps, and goes on to {job.steps:,}")
        return longer
    refuse_mismatch(_depends_on(job), _depends_on(theirs), run, _OTHER_JOB)
    check_data(run, job, say)
    refuse_mismatch({"fingerprint": job.fingerprint}, {"fingerprint": theirs.fingerprint}, run, _OTHER_JOB)
    return msgspec.structs.replace(job, earlier=theirs.earlier)


def _depends_on(job: Job) -> dict[str, Any]:
    """What can be named of all that a job's weights and the files of its checkpoints depend on."""
    fields = plain(msgspec.structs.asdict(job))
    train = {key: value for key, value in fields["train"].items() if key not in (*UNFINGERPRINTED_KEYS, *_PLACES)}
    train["model"] = {key: value for key, value in train["model"].items() if key != "init"}  # a path
    kept = {key: fields[key] for key in _FIELDS}
    return {**kept, "train": train, "options": fields["computed"]}
