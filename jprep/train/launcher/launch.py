"""Launch a run from the recipe's `[train]` section: prepare it, create its directory, train it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.dataset.conversations.config import Chat, describe_counts
from jprep.dataset.mix import MixConfig
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.environments import interpreter
from jprep.train.backend import Backend, Host, Plan
from jprep.train.backend_loading import backend_options, load_backend
from jprep.train.hooks.inspection import InspectHooks, find_hooks, inspector
from jprep.train.hooks.sources import HookSources, copy_hook_files
from jprep.train.hosts.find import hosts_of
from jprep.train.hosts.host_set import HostSet
from jprep.train.hosts.planning import Replan, make_replan, plan_on_hosts
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, TrainConfig, parse_train_config
from jprep.train.job.features import check_features, check_task
from jprep.train.launcher.environments import environment_path, worker_python
from jprep.train.launcher.import_probe import NotInstalledError
from jprep.train.launcher.start_command import StartCommand, write_command
from jprep.train.launcher.supervisor import supervise
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.planning.family_check import check_family
from jprep.train.planning.host import this_host
from jprep.train.pretrained.given_state import ensure_given_state
from jprep.train.pretrained.init import transferred_rows
from jprep.train.pretrained.start import describe_init, generator_init_path, init_path
from jprep.train.results.deletion import check_restart, delete_run
from jprep.train.run.directory import (
    INIT,
    INIT_HASH,
    check_output,
    checkpoints_of,
    open_run,
    read_job,
    run_directory,
    sample_lists_folder,
)
from jprep.train.run.log import Say, on_stderr
from jprep.train.run.profile import PROFILE, ProfileSteps, check_profile
from jprep.train.trackers.check import check_trackers
from jprep.train.uploads.mirror import open_mirror
from jprep.train.uploads.mirror_url import check_mirror
from jprep.train.uploads.push import check_destination

_WHERE = "[train]"


class RunInputs(NamedTuple):
    """What a run is made from besides the recipe's `[train]`.

    Attributes:
        name: the run's name.
        backend_name: the backend's name.
        run: the run directory.
        tokenizer: the tokenizer's folder.
        dataset: the dataset's folder, for `clm`, `mlm` and `rtd`.
        mix: how the sources of the dataset are mixed: the recipe's `[dataset.mix]`.
    """

    name: str
    backend_name: str
    run: Path
    tokenizer: Path
    dataset: Path | None = None
    mix: MixConfig | None = None


class PreparedRun(NamedTuple):
    """A run that is ready to start.

    Attributes:
        backend: the backend.
        job: the job.
        run: the run directory, which need not exist yet.
        plan: how the job is run on this host.
        host: this host.
        hook_files: the content of the files of the job's hooks, by name.
        hosts: the hosts of the run; None for this machine.
    """

    backend: Backend
    job: Job
    run: Path
    plan: Plan
    host: Host
    hook_files: Mapping[str, bytes] = {}
    hosts: HostSet | None = None


def outer_host_set(section: TrainConfig | Mapping[str, Any] | None, backend_name: str) -> HostSet | None:
    """Return the processes of an outer launcher that run this command too; None without one.

    Args:
        section: the recipe's `[train]`.
        backend_name: the backend's name.

    Raises:
        ConfigError: the section or its hosts cannot be used.
    """
    if not section:
        return None
    train, backend = parse_train_config(section, _WHERE), load_backend(backend_name)
    hosts = hosts_of(train, backend, backend_options(train, backend))
    return hosts if hosts and hosts.fixed else None


def prepare_run(
    section: TrainConfig | Mapping[str, Any] | None, inputs: RunInputs, *, dry: bool = False
) -> PreparedRun:
    """Plan a run. Nothing is written but lists of the dataset's samples; if `dry`, nothing at all.

    Args:
        section: the recipe's `[train]`, typed or as plain data. Its paths are relative to the working directory.
        inputs: what else the run is made from.
        dry: if the backend is not installed, plan for the environment that `jprep backends install` would create.

    Raises:
        ConfigError: the section is missing or wrong, its parts do not fit together, there is no such backend, or the
            run directory holds something else.
        InputError: a labelled row that cannot be used, or a damaged file of initial weights.
        MachineError: the backend's environment is not installed.
    """
    if not section:
        fix = 'add [train] with task = "clm", model = { preset = "gpt2-small" }, steps = 10000; see docs/recipes.md'
        raise ConfigError("the recipe has no [train] section", where=_WHERE, fix=fix)
    train, backend = parse_train_config(section, _WHERE), load_backend(inputs.backend_name)
    options = backend_options(train, backend)
    check_output(run_directory(inputs.run))
    sources = find_hooks(train, backend)
    if train.checkpoint.mirror and not dry:
        check_mirror(train.checkpoint.mirror)
    job = _build_job(train, backend, options, sources, inputs, dry=dry)
    host, hosts = this_host(_python(backend, options, dry=dry)), hosts_of(train, backend, options)
    check_family(backend, job.model, options, Path(host.python))
    if hosts and hosts.number:
        fix = "use `jprep train`, which joins the run of the first process"
        raise ConfigError(f"this is {hosts.names[hosts.number]}", where="train.hosts", fix=fix)
    if hosts:
        plan = plan_on_hosts(backend, job, inputs.run.absolute(), host, hosts)
    else:
        plan = backend.plan(job, inputs.run.absolute(), host)  # its errors say why
    check_task(train.task, backend.name, backend.tasks)
    check_features(train, backend.name, backend.features)
    return PreparedRun(backend, job, inputs.run, plan, host, sources.files if sources else {}, hosts)


def build_run_job(section: TrainConfig | Mapping[str, Any], inputs: RunInputs) -> Job:
    """Return the job of a run, whatever machines train it; see `prepare_run`."""
    train, backend = parse_train_config(section, _WHERE), load_backend(inputs.backend_name)
    options = backend_options(train, backend)
    return _build_job(train, backend, options, find_hooks(train, backend), inputs)


def _build_job(
    train: TrainConfig,
    backend: Backend,
    options: Any,
    hooks: HookSources | None,
    inputs: RunInputs,
    *,
    dry: bool = False,
) -> Job:
    """Build the job of a run. With `dry`, lists of the dataset's samples are deleted again."""
    with _lists_folder(inputs.dataset, inputs.run, dry=dry) as lists:
        computed, own = backend.result_options(options), msgspec.to_builtins(options)
        inspect = _inspect_hooks(hooks, train, backend, options)
        return build_job(
            train, inputs.name, inputs.backend_name, own, inputs.tokenizer, inputs.dataset,
            run=inputs.run, lists=lists, mix=inputs.mix, computed=computed, inspect_hooks=inspect,
        )  # fmt: skip


def create_run(prepared: PreparedRun, say: Say = on_stderr) -> None:
    """Create the run directory with the state it begins with, or check that the existing one belongs to this job.

    Args:
        prepared: from `prepare_run`.
        say: called with a message for the user.

    Raises:
        MismatchError: the run belongs to another job, or its data has changed.
        MachineError: another process trains there, or the directory is not writable.
        ConfigError, InputError: the file of initial weights has changed.
    """
    run = prepared.run
    open_run(run, prepared.job, say)
    job = read_job(run)  # with the jobs that an extended one continues
    if job.chat:
        _say_counts(job.chat, say)
    with run_directory(run).claim():  # whoever holds the lock deletes unfinished files
        copy_hook_files(run, prepared.hook_files)
        _ensure_initial_weights(run, job, say)
        ensure_given_state(run, job, say)


def train(
    prepared: PreparedRun,
    *,
    resume_step: int | None = None,
    say: Say = on_stderr,
    profile: ProfileSteps | None = None,
    command: StartCommand | None = None,
) -> int:
    """Create or resume a run, and train it until it is finished or stopped.

    A run with a mirror that is ahead of the run directory, which may not exist, is downloaded first.

    Args:
        prepared: from `prepare_run`.
        resume_step: the step of the checkpoint to resume from, 0 for the beginning; None for the newest valid one.
        say: called with a message for the user.
        profile: the steps to profile (`jprep.train.run.profile`); None for none.
        command: the command line that starts it, which is stored in the run directory for `jprep service`.

    Returns:
        The exit code, see `jprep.train.launcher.supervisor.supervise`.

    Raises:
        JprepError: see `create_run`, `supervise`, `jprep.train.trackers.check.check_trackers`,
            `jprep.train.uploads.push.check_destination` and `jprep.train.uploads.mirror.open_mirror`; or the run will
            not compute the profiled steps.
    """
    check_destination(prepared.job.train.push, say)
    check_trackers(prepared.run, prepared.job.train.trackers, say)
    with open_mirror(prepared.run, prepared.job, say) as mirror:
        plan = _profiled_plan(prepared, resume_step, profile) if profile else prepared.plan
        create_run(prepared, say)
        if command:
            write_command(prepared.run, command)
        replan = replan_of(prepared)
        return supervise(prepared.run, plan, resume_step=resume_step, say=say, mirror=mirror, replan=replan)


def delete_earlier_run(prepared: PreparedRun, profile: ProfileSteps | None = None, say: Say = on_stderr) -> None:
    """Delete an earlier run in the directory of a prepared one, once it is known that the new one can begin.

    Args:
        prepared: from `prepare_run`.
        profile: the steps to profile; None for none.
        say: called with a message for the user.

    Raises:
        JprepError: see `train` and `jprep.train.results.deletion`.
    """
    job = prepared.job
    check_destination(job.train.push, say)
    check_trackers(prepared.run, job.train.trackers, say)
    if profile:
        check_profile(profile, job.steps, job.steps_before)
    check_restart([job.train.checkpoint.mirror])
    delete_run(prepared.run)


def replan_of(prepared: PreparedRun) -> Replan | None:
    """Return the function that plans a run without lost hosts; None if it has no hosts."""
    if not prepared.hosts:
        return None
    return make_replan(prepared.backend, prepared.job, prepared.run.absolute(), prepared.host, prepared.hosts)


def _profiled_plan(prepared: PreparedRun, resume_step: int | None, profile: ProfileSteps) -> Plan:
    """Return the plan with the steps to profile, if the run will compute them."""
    first = _saved_step(prepared) if resume_step is None else resume_step
    check_profile(profile, prepared.job.steps, max(prepared.job.steps_before, first))
    return msgspec.structs.replace(prepared.plan, env=prepared.plan.env | {PROFILE: str(profile)})


def _saved_step(prepared: PreparedRun) -> int:
    return max((one.step for one in checkpoints_of(prepared.run, prepared.job).committed()), default=0)


@contextlib.contextmanager
def _lists_folder(dataset: Path | None, run: Path, *, dry: bool) -> Iterator[Path | None]:
    """Yield where lists of the dataset's samples are stored; a temporary folder if `dry`."""
    if dry:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        yield sample_lists_folder(dataset, run) if dataset else None


def _say_counts(chat: Chat, say: Say) -> None:
    say(f"data: {describe_counts(chat.counts)}")
    if chat.validation_counts:
        say(f"validation data: {describe_counts(chat.validation_counts)}")


def _ensure_initial_weights(run: Path, job: Job, say: Say) -> None:
    """Write the initial weights, unless they exist undamaged. They can be written again at any time."""
    weights, mark = run / INIT, run / INIT_HASH
    if weights.exists() and mark.exists():
        if file_sha256(weights).encode() == mark.read_bytes():
            return
        say(f"{INIT} is damaged and is written again")
    given, generator = init_path(job, run), generator_init_path(job, run)
    rows = transferred_rows(job.train, given, run / job.tokenizer) if given else None
    if given:
        say(f"initial weights: {describe_init(job, run)}")
    write_initial_weights(job.model, job.train.objective, job.train.seed, weights, given, rows, generator)
    write_atomic(mark, file_sha256(weights).encode())


def _inspect_hooks(
    sources: HookSources | None, train: TrainConfig, backend: Backend, options: Any
) -> InspectHooks | None:
    if not sources:
        return None
    return inspector(sources, train, backend, worker_python(backend, options), backend.check_environment(options))


def _python(backend: Backend, options: Any, *, dry: bool) -> Path:
    try:
        return worker_python(backend, options)
    except NotInstalledError:
        if not dry:
            raise
        return interpreter(environment_path(backend.environment(options).name))
