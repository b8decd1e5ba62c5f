"""The run directory: its files, and its job. `docs/runs.md` describes the layout."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.fingerprint import plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import RUN
from jprep.engine.runner import refuse_mismatch
from jprep.errors import ConfigError, InputError, MismatchError
from jprep.io.atomic import write_atomic
from jprep.io.retry import retry_transient
from jprep.io.shared.network_files import retry_stale
from jprep.train.backend import Plan
from jprep.train.hooks.config import HOOKS
from jprep.train.hooks.sources import refuse_changed_hooks
from jprep.train.job.best import best_figure
from jprep.train.job.config import FORMAT, UNFINGERPRINTED_KEYS, Job
from jprep.train.job.fingerprint import OTHER_RUN, extend_job
from jprep.train.job.renamed import rename_job_options, rename_schedule
from jprep.train.run.checkpoints import CheckpointStore
from jprep.train.run.commit import await_files, checkpoint_name, find_checkpoint_damage, read_commit
from jprep.train.run.data_lock import check_data, write_data_lock
from jprep.train.run.log import Say, on_stderr
from jprep.train.run.ranks import RANKS

JOB, PLAN, ENVIRONMENT, LOCK, HEARTBEAT = "job.json", "plan.json", "env.json", "LOCK", "heartbeat"
"""Files of a run. The modification time of the heartbeat shows the supervisor that the worker is alive."""

LISTS = "lists"
"""The folder for lists of samples, if the dataset's own folder is not writable."""

CHECKPOINTS, EXPORT, INIT, INIT_HASH = "checkpoints", "export", "init.safetensors", "init.sha256"
START = "start"
"""The folder with the training state that a run begins with, if it continues another training."""

EVALUATIONS = "evaluations"
"""The folder with the figures of `jprep evaluate`."""

GENERATOR = "generator"
"""The folder for the export of an ELECTRA's generator."""

_BELOW = ("*", "runs/*", "runs/*/fold-*", "*/runs/*")
_MOST = 3  # runs that an error names
_FOLD = re.compile(r"fold-\d+")
_COMPARED_FIELDS = ("format", "model", "steps", "samples", "special", "labels")
_MODEL_KEYS = ("init", "pad_vocab")  # a path, and a key that no weight depends on
_PATH_KEYS = ("data", "validation_data", "backend", "hooks")
_OTHER_OUTPUT = "give another --name or -o, or move this directory away"
_FOLDS_HERE = "give another --name or -o; or --all-folds, if the recipe has train.labelled.folds"
_OTHER_JOB = f"use the options of the first command again, {OTHER_RUN}"


def run_directory(run: Path) -> OutputDirectory:
    """Return the run directory as an `OutputDirectory` that knows the names of a run's files."""
    folders = tuple(f"{folder}/*" for folder in (CHECKPOINTS, LISTS, RANKS, HOOKS, START, EVALUATIONS))
    return OutputDirectory(run, RUN, files=("*.json", INIT, INIT_HASH, *folders))


def check_output(out: OutputDirectory) -> None:
    """Check the directory of a run, or of the runs of all folds; nothing is changed.

    Args:
        out: the directory.

    Raises:
        ConfigError: it holds something else; the fix names options of `jprep train`.
        MachineError: it cannot be read.
    """
    try:
        out.check()
    except ConfigError as error:
        if "-o" not in error.options:
            raise
        raise error.replace(fix=_FOLDS_HERE if out.kind is RUN and fold_runs(out.path) else _OTHER_OUTPUT) from error


def open_run(run: Path, job: Job, say: Say = on_stderr) -> None:
    """Create a run directory for a job, or check that the existing one belongs to the job.

    Keys that no weight depends on (`UNFINGERPRINTED_KEYS`), paths, the backend, and options that do not change the
    result may differ from those of the existing run; the new ones are stored. A job may have more steps than the run
    began with, if its schedule gives the steps already done the same learning rates (`jprep.train.job.fingerprint`).

    Args:
        run: the run directory.
        job: the job.
        say: called with a message for the user.

    Raises:
        MismatchError: the run belongs to another job, or the dataset, the tokenizer or labelled rows have changed.
        MachineError: another process trains there, or the directory is not writable.
        ConfigError: the directory holds something else, or the dataset or the tokenizer does not exist.
    """
    out = run_directory(run)
    with out.claim():
        if (run / JOB).exists():
            job = _resumed_job(job, run, say)
        else:
            write_data_lock(run, job, say)
        out.seal(job)


def check_existing_run(run: Path, job: Job, say: Say = on_stderr) -> None:
    """Check that an existing run belongs to a job, as `open_run` does; nothing is written.

    Args:
        run: the run directory, which need not exist.
        job: the job.
        say: called with a message for the user.

    Raises:
        JprepError: see `open_run`.
    """
    if (run / JOB).exists():
        _resumed_job(job, run, say, dry=True)


def read_job(run: Path) -> Job:
    """Read a run's job. Keys under their former names get the current ones.

    Raises:
        ConfigError: there is no run, or its job.json is damaged.
        MachineError: it cannot be read.
        MismatchError: another version of jprep wrote it.
    """
    try:
        data = retry_transient((run / JOB).read_bytes, run / JOB, "repair the file system, then try again")
    except OSError as error:
        raise no_run_error(run, "there is no run here", "`jprep train` creates one") from error
    return decode_job(data, str(run))


def job_path(run: Path, text: str) -> Path:
    """Return a path of a job, which may be relative to its run; the run need not exist."""
    return Path(os.path.normpath(run.resolve() / text))


def export_command(run: Path) -> str:
    """Return the command that exports a run."""
    return f"jprep export {shlex.quote(str(run))}"


def no_run_error(run: Path, what: str, fix: str, command: Callable[[Path], str] = export_command) -> ConfigError:
    """Return the error about a directory without a run; in one with the runs of all folds, or others, it names these.

    Args:
        run: the directory.
        what: what happened, if there are no folds.
        fix: how to fix it, if there are no runs below.
        command: returns a command for the run of one fold.
    """
    if folds := fold_runs(run):
        what = f"expected one run, got the runs of {len(folds)} folds"
        names = f"{folds[0].name} … {folds[-1].name}" if len(folds) > 1 else folds[0].name
        fix = f"give one of {names}, e.g. `{command(folds[0])}`"
    elif runs := runs_below(run):
        fix = f"give {' or '.join(shlex.quote(str(each)) for each in runs[:_MOST])}"
    return ConfigError(what, where=str(run), fix=fix)


def runs_below(folder: Path) -> list[Path]:
    """Return the runs in a directory that is not one, such as that of a recipe's outputs."""
    return sorted(job.parent for pattern in _BELOW for job in folder.glob(f"{pattern}/{JOB}"))


def is_fold(run: Path) -> bool:
    """Return whether a run directory has the name of one of several folds."""
    return _FOLD.fullmatch(run.name) is not None


def fold_runs(folder: Path) -> list[Path]:
    """Return the runs of folds in a directory, by number."""
    found = (job.parent for job in folder.glob(f"fold-*/{JOB}"))
    return sorted(filter(is_fold, found), key=lambda run: (len(run.name), run.name))


def decode_job(data: bytes, where: str) -> Job:
    """Decode a `job.json`; see `read_job`.

    Args:
        data: its content.
        where: the run, for errors.
    """
    try:
        job = decode_checksummed(data, Job)
    except ValueError as error:
        fix = f"restore job.json from a backup, or use {OTHER_RUN}"
        raise ConfigError(f"job.json is damaged: {error}", where=where, fix=fix) from error
    if job.format != FORMAT:
        fix = f"use the version of jprep that started it, {OTHER_RUN}"
        raise MismatchError(f"the run has format {job.format}; this jprep reads {FORMAT}", where=where, fix=fix)
    return msgspec.structs.replace(rename_job_options(job), train=rename_schedule(job.train))


def write_plan(run: Path, plan: Plan) -> None:
    """Write `plan.json`: how the worker of an attempt is started, for processes on other hosts.

    Raises:
        MachineError: it cannot be written.
    """
    write_atomic(run / PLAN, encode_checksummed(plan, indent=1))


def read_plan(run: Path) -> Plan:
    """Read how the worker of the newest attempt is started; `Plan.env` holds the attempt's variables.

    Raises:
        OSError: there has been no attempt, or the file cannot be read.
        ConfigError: it is damaged, or another version of jprep wrote it.
    """
    try:
        return decode_checksummed(retry_stale((run / PLAN).read_bytes), Plan)
    except ValueError as error:
        raise ConfigError(f"{PLAN} is damaged: {error}", where=str(run), fix="`jprep train` writes it") from error


def write_environment(run: Path) -> None:
    """Write `env.json`: this process's Python, and the version of every distribution that it can import.

    Raises:
        MachineError: it cannot be written.
    """
    versions = _installed_versions()
    about = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    fields = {**about, "packages": dict(sorted(versions.items()))}
    write_atomic(run / ENVIRONMENT, msgspec.json.format(msgspec.json.encode(fields), indent=1))


def _installed_versions() -> dict[str, str]:
    """Return the version of each distribution. `Distribution.metadata` would parse its whole description too: slow."""
    versions: dict[str, str] = {}
    for one in importlib.metadata.distributions():
        # an .egg-info is a directory, or the file itself
        found = one.read_text("METADATA") or one.read_text("PKG-INFO") or one.read_text("")
        head = (found or "").partition("\n\n")[0]
        fields = dict(line.partition(": ")[::2] for line in head.splitlines())
        if name := fields.get("Name", "").strip().lower():
            versions.setdefault(name, fields.get("Version", "").strip())  # of two, the first is imported
    return versions


def checkpoints_of(run: Path, job: Job) -> CheckpointStore:
    """Return the checkpoints of a run."""
    keep = job.train.checkpoint
    more = keep.keep_last, keep.keep_best, job.earlier, best_figure(keep)
    return CheckpointStore(run / CHECKPOINTS, job.fingerprint, *more)


def given_state_store(run: Path, job: Job) -> CheckpointStore:
    """Return where a run that continues another training has the state that it begins with, as a checkpoint."""
    return CheckpointStore(run / START, job.fingerprint, earlier=job.earlier)


def given_state(run: Path, job: Job) -> Path | None:
    """Return the folder of the training state that a run begins with; None if it begins at step 0."""
    return run / START / checkpoint_name(job.steps_before) if job.steps_before else None


def state_to_resume(run: Path, job: Job, checkpoint: str, *, check: bool) -> Path | None:
    """Return the folder that a worker resumes from; None at step 0.

    Args:
        run: the run directory.
        job: the job.
        checkpoint: the name of a checkpoint, whose hashes were checked; "" for the state that the run begins with.
        check: whether to check the hashes of that state.

    Raises:
        InputError: it is missing or damaged.
        MachineError: it cannot be read.
    """
    if checkpoint:
        return await_files(run / CHECKPOINTS / checkpoint)
    folder = given_state(run, job)
    if folder is None:
        return None
    folder = await_files(folder)
    if problem := _damage_of(folder) if check else "":
        fix = "run the same `jprep train` again, which writes it again"
        raise InputError(f"the state that the run begins with is damaged: {problem}", where=str(folder), fix=fix)
    return folder


def _damage_of(folder: Path) -> str:
    """Return what is wrong with a training state; "" if it is intact."""
    commit = read_commit(folder)
    return commit if isinstance(commit, str) else find_checkpoint_damage(folder, commit)


def sample_lists_folder(dataset: Path, run: Path) -> Path:
    """Return where lists of a dataset's samples are stored: in the dataset, or in the run if that is not writable."""
    return dataset if os.access(dataset, os.W_OK) else run / LISTS


def _resumed_job(job: Job, run: Path, say: Say, *, dry: bool = False) -> Job:
    """Return the job that an existing run resumes with.

    Raises:
        MismatchError: the run belongs to another job.
        ConfigError: job.json is damaged, and no checkpoint shows that the job is the same.
    """
    try:
        before = read_job(run)
    except ConfigError:
        store = checkpoints_of(run, job)
        if not any(map(store.owns, store.committed()[-1:])):
            raise
        check_data(run, job, say, dry=dry)
        say(f"{JOB} is damaged and is written again: the newest checkpoint belongs to this job")
        return job
    job = same_or_longer_job(job, before, run, say, dry=dry)
    if before.backend != job.backend:
        say(f"this run began on the backend {before.backend} and resumes on {job.backend}")
    return job


def same_or_longer_job(job: Job, before: Job, run: Path, say: Say, *, dry: bool = False) -> Job:
    """Return the job that a run resumes with. Data is compared before what it changes, such as the number of samples.

    Args:
        job: the new job.
        before: the job that the run had.
        run: the run directory.
        say: called with a message for the user.
        dry: write nothing.

    Raises:
        MismatchError: the run belongs to another job.
    """
    if longer := extend_job(job, before, str(run)):
        check_data(run, longer, say, dry=dry)
        say(f"this run had {before.steps:,} steps and is extended to {job.steps:,}")
        return longer
    refuse_changed_hooks(job, before, run)
    check_data(run, job, say, dry=True)
    try:
        refuse_mismatch(_compared(job), _compared(before), run, _OTHER_JOB)
        refuse_mismatch({"fingerprint": job.fingerprint}, {"fingerprint": before.fingerprint}, run, _OTHER_JOB)
    except MismatchError:
        if not dry:  # the reason may be a changed file
            check_data(run, job, say, record=False)
        raise
    if not dry:
        check_data(run, job, say)
    return msgspec.structs.replace(job, earlier=before.earlier)


def _compared(job: Job) -> dict[str, Any]:
    """Return the named values that a job's weights and checkpoint files depend on, for messages about differences."""
    fields = plain(msgspec.structs.asdict(job))
    train = {key: value for key, value in fields["train"].items() if key not in (*UNFINGERPRINTED_KEYS, *_PATH_KEYS)}
    train["model"] = {key: value for key, value in train["model"].items() if key not in _MODEL_KEYS}
    kept = {key: fields[key] for key in _COMPARED_FIELDS}
    return {"dataset.mix": fields["mix"], **kept, "train": train, "options": fields["computed"]}
