"""From a recipe's `[train]` section to a run that is going: the one way in, for the command line and for programs."""

from __future__ import annotations

import contextlib
import difflib
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.config import apply_overrides
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, write_atomic
from jprep.plugins import plugins
from jprep.train.backend import Backend, Host, Plan, environment_of, result_options_of
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, TrainConfig, parse_train_config
from jprep.train.job.renamed import parse_options
from jprep.train.launcher.backend_packages import install_command
from jprep.train.launcher.environments import environment_path, interpreter, worker_python
from jprep.train.launcher.import_probe import NotInstalledError
from jprep.train.launcher.supervisor import supervise
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.planning.host import this_host
from jprep.train.run.directory import INIT, INIT_HASH, open_run, output_directory, sample_lists_folder
from jprep.train.run.log import Say, on_stderr

DEFAULT_BACKEND = "torch"

_WHERE = "[train]"


class PreparedRun(NamedTuple):
    """A run that can begin.

    Attributes:
        backend: the backend's light half.
        job: the job.
        run: the run directory, which need not be there yet.
        plan: how the job is run on this machine.
        host: this machine.
    """

    backend: Backend
    job: Job
    run: Path
    plan: Plan
    host: Host


def backend_name(train: TrainConfig | None) -> str:
    """Return the backend of a `[train]` section: the only one that it has options for; else `torch`."""
    return next(iter(train.backend)) if train and len(train.backend) == 1 else DEFAULT_BACKEND


def load_backend(name: str) -> Backend:
    """A backend's light half.

    Raises:
        ConfigError: no such backend is installed; the message names the nearest.
    """
    try:
        made: Backend = plugins().get("backend", name)()
    except ConfigError as error:
        fix = f"{error.fix}; a backend is a package of its own: {install_command(name)}"
        raise ConfigError(error.what, fix=fix) from error
    return made


def load_backend_and_options(name: str, overrides: Iterable[str]) -> tuple[Backend, Any]:
    """A backend's light half, and its own options where no recipe says them.

    Args:
        name: the backend's.
        overrides: `option=value` settings.

    Raises:
        ConfigError: there is no such backend, it has no such option, or a value is of the wrong type.
    """
    half = load_backend(name)
    return half, parse_options(half, apply_overrides({}, overrides))


def prepare_run(
    section: TrainConfig | Mapping[str, Any] | None,
    name: str,
    backend: str,
    run: Path,
    tokenizer: Path,
    dataset: Path | None,
    *,
    dry: bool = False,
) -> PreparedRun:
    """Work out a run, and write nothing but lists of the dataset's samples; if `dry`, nothing at all.

    Args:
        section: the recipe's `[train]`, typed or as plain data. Its paths are relative to the working directory.
        name: the run's.
        backend: the backend's name.
        run: the run directory.
        tokenizer: the tokenizer's folder.
        dataset: the dataset's, for `clm` and `mlm`.
        dry: plan for the environment that `jprep backends install` would make, where there is none.

    Raises:
        ConfigError: the section says nothing or something wrong, its parts do not fit together, there is no such
            backend, or the run directory holds something else.
        InputError: a labelled row that cannot be used, or a damaged file of weights.
        MachineError: the backend's environment is not installed.
    """
    if not section:
        fix = 'add [train] with task = "clm", model = { preset = "gpt2-small" }, steps = 10000; see docs/recipes.md'
        raise ConfigError("the recipe does not say what to train", where=_WHERE, fix=fix)
    train, half = parse_train_config(section, _WHERE), load_backend(backend)
    options = backend_options(train, half)
    output_directory(run).check()
    with tempfile.TemporaryDirectory() if dry else contextlib.nullcontext() as aside:
        lists = Path(aside) if aside else sample_lists_folder(dataset, run) if dataset else None
        own = msgspec.to_builtins(options)
        job = build_job(
            train,
            name,
            backend,
            own,
            tokenizer,
            dataset,
            run=run,
            lists=lists,
            computed=result_options_of(half, options),
        )
    host = this_host(_python(half, options, dry=dry))
    return PreparedRun(half, job, run, half.plan(job, run.absolute(), host), host)


def create_run(prepared: PreparedRun, say: Say = on_stderr) -> None:
    """Make the run directory with the weights that it starts from, or see that the one that stands is this job's.

    Args:
        prepared: from `prepare`.
        say: is told what a user should know.

    Raises:
        MismatchError: it holds another job, or its data has changed.
        MachineError: another process trains there, or it cannot be written.
        ConfigError, InputError: the file of weights to start from has changed.
    """
    job, run = prepared.job, prepared.run
    open_run(run, job, say)
    with output_directory(run).claim():  # whoever holds the lock deletes unfinished files
        _initial(run, job, say)


def train(prepared: PreparedRun, *, resume: str = "auto", say: Say = on_stderr) -> int:
    """Begin a run, or go on with it, and bring it to its end or as far as somebody lets it.

    Args:
        prepared: from `prepare`.
        resume: `auto`, from the last good checkpoint; a step; `never`, from the beginning.
        say: is told what a user should know.

    Returns:
        the exit code, see `jprep.train.launcher.supervisor.supervise`.

    Raises:
        JprepError: see `begin` and `supervise`.
    """
    create_run(prepared, say)
    return supervise(prepared.run, prepared.plan, resume=resume, say=say)


def _initial(run: Path, job: Job, say: Say) -> None:
    """See that the weights that the run starts from are there and whole; they can be made again at any time."""
    weights, mark = run / INIT, run / INIT_HASH
    if weights.exists() and mark.exists():
        if file_sha256(weights).encode() == mark.read_bytes():
            return
        say(f"{INIT} is damaged, and is made again")
    given = run / job.train.model.init if job.train.model.init else None
    write_initial_weights(job.model, job.train.task, job.train.seed, weights, given)
    write_atomic(mark, file_sha256(weights).encode())


def backend_options(train: TrainConfig, half: Backend) -> Any:
    """The backend's own options, checked. A misspelt backend's would be passed over in silence."""
    known = plugins().names("backend")
    for other in train.backend:
        if other not in known and (close := difflib.get_close_matches(other, known, n=1)):
            where, fix = f"train.backend.{other}", f"did you mean {close[0]!r}?"
            raise ConfigError(f"there is no backend {other!r}", where=where, fix=fix)
    return parse_options(half, train.backend.get(half.name, {}))


def _python(half: Backend, options: Any, *, dry: bool) -> Path:
    try:
        return worker_python(half, options)
    except NotInstalledError:
        if not dry:
            raise
        return interpreter(environment_path(environment_of(half, options).name))
