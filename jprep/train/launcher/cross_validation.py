"""Cross-validation: train a labelled job once for each fold, and summarize the metrics."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import FOLDS as KIND
from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic
from jprep.train.job.config import TrainConfig, parse_train_config
from jprep.train.job.push import PushConfig
from jprep.train.job.tracking import TrackerConfig, TrackerName
from jprep.train.launcher.launch import PreparedRun, RunInputs, prepare_run, train
from jprep.train.results.deletion import check_restart, delete_run
from jprep.train.run.directory import check_output, fold_runs, read_job, run_directory
from jprep.train.run.events import read_events
from jprep.train.run.log import Say, on_stderr
from jprep.train.trackers.check import check_trackers
from jprep.train.uploads.mirror_url import fold_mirror
from jprep.train.uploads.push import check_destination

FOLDS = "folds.json"


class MetricSummary(msgspec.Struct, frozen=True):
    """A validation metric over all folds.

    Attributes:
        mean: the mean of the folds in which it is defined; None if there are none.
        deviation: the sample standard deviation (n - 1); None for fewer than two folds.
        each: the value of each fold, in order; None if undefined.
    """

    mean: float | None
    deviation: float | None
    each: list[float | None]


class FoldsSummary(msgspec.Struct, frozen=True):
    """`folds.json`: the result of cross-validation.

    Attributes:
        name: the run's name.
        jobs: the fingerprint of each fold's job.
        figures: validation metrics at the last step of each fold by name, `loss` among them.
        steps: the step of each fold that they were measured at; empty in files of earlier versions.
    """

    name: str
    jobs: list[str]
    figures: dict[str, MetricSummary]
    steps: list[int] = []


def fold_count(section: TrainConfig | Mapping[str, Any]) -> int:
    """Return for how many folds a recipe's `[train]` is trained.

    Returns:
        0 if the section has no folds, has validation data, or selects a single fold.

    Raises:
        ConfigError: the folds are not validated, or a value is wrong.
    """
    train = parse_train_config(section, "[train]")
    if train.fold is not None or train.validation_data or not train.labelled.folds:
        return 0
    if not train.validation.enabled:
        fix = "set train.validation.every_steps, e.g. to 100, or every_epochs; the last step is measured in any case"
        raise ConfigError("the folds would not be validated", where="train.validation.every_steps", fix=fix)
    return train.labelled.folds


def fold_directories(run: Path, number: int) -> list[Path]:
    """Return the run directories of all folds."""
    return [run / f"fold-{fold}" for fold in range(number)]


def train_folds(
    section: TrainConfig | Mapping[str, Any],
    inputs: RunInputs,
    *,
    train_one: Callable[[PreparedRun], int] = train,
    restart: bool = False,
) -> int:
    """Train a job for each of its folds in RUN/fold-0, RUN/fold-1, …, and write the summary RUN/folds.json.

    Finished folds are skipped, and interrupted ones are resumed.

    Args:
        section: the recipe's raw `[train]`, without `fold`.
        inputs: what else the runs are made from: `run` is the parent of their directories, and a dataset is not used.
        train_one: trains one run, and returns its exit code.
        restart: delete the earlier runs of all folds before the first one is trained.

    Returns:
        0; or the exit code of a fold that did not finish, after which the same call resumes it.

    Raises:
        ConfigError: there are no folds, they are not validated, or the folder holds something else.
        JprepError: see `jprep.train.launcher.launch.prepare_run` and `train`.
    """
    train_config = parse_train_config(section, "[train]")
    folders = fold_directories(inputs.run, _required_fold_count(train_config))
    for fold, folder in enumerate(folders):
        fold_config = config_of_fold(train_config, fold, folder.name)
        prepared = prepare_run(fold_config, inputs_of_fold(inputs, folder))
        if not fold:
            check_output(OutputDirectory(inputs.run, KIND))
        if restart and not fold:
            _delete_folds(train_config, folders)
        if code := train_one(prepared):
            return code
    write_atomic(inputs.run / FOLDS, encode_checksummed(summarize_folds(inputs.name, folders), indent=1))
    return 0


def plan_first_fold(section: TrainConfig | Mapping[str, Any], inputs: RunInputs) -> PreparedRun:
    """Plan the run of the first fold; nothing is written.

    Args:
        section: the recipe's raw `[train]`, without `fold`.
        inputs: see `train_folds`.

    Raises:
        JprepError: see `train_folds`.
    """
    train_config = parse_train_config(section, "[train]")
    folder = fold_directories(inputs.run, _required_fold_count(train_config))[0]
    prepared = prepare_run(config_of_fold(train_config, 0, folder.name), inputs_of_fold(inputs, folder), dry=True)
    check_output(OutputDirectory(inputs.run, KIND))
    return prepared


def _delete_folds(train: TrainConfig, new: list[Path]) -> None:
    """Delete the runs of all folds, of an earlier number of folds too, and the summary.

    They stay if a process uses one, or if the new ones could not begin.
    """
    check_destinations(train, on_stderr)
    check_trackers(new[0], train.trackers, on_stderr)
    run = new[0].parent
    folders = sorted(folder for folder in {*new, *fold_runs(run)} if not folder.is_symlink())
    check_restart(fold_mirror(train.checkpoint.mirror, folder.name) for folder in folders)
    for folder in (each for each in folders if each.exists()):
        with run_directory(folder).claim():
            pass
    (run / FOLDS).unlink(missing_ok=True)
    for folder in folders:
        delete_run(folder)


def config_of_fold(train: TrainConfig, fold: int, name: str) -> TrainConfig:
    """Return the section of one fold, whose mirror, uploads and names in trackers are its own.

    Args:
        train: the section of all folds.
        fold: the number of the fold.
        name: its name, such as `fold-0`.
    """
    checkpoint = msgspec.structs.replace(train.checkpoint, mirror=fold_mirror(train.checkpoint.mirror, name))
    push, trackers = _push_of(train.push, name), [_tracker_of(one, name) for one in train.trackers]
    return msgspec.structs.replace(train, fold=fold, checkpoint=checkpoint, push=push, trackers=trackers)


def inputs_of_fold(inputs: RunInputs, folder: Path) -> RunInputs:
    """Return the inputs of the run of one fold, which is trained on labelled data.

    Args:
        inputs: those of all folds.
        folder: the run directory of the fold.
    """
    return inputs._replace(name=f"{inputs.name}/{folder.name}", run=folder, dataset=None, mix=None)


def check_destinations(train: TrainConfig, say: Say) -> None:
    """Check the repositories that a recipe's models are uploaded to: one, or one for each fold.

    Args:
        train: the section.
        say: called with a message for the user.

    Raises:
        JprepError: see `jprep.train.uploads.push.check_destination`.
    """
    names = [folder.name for folder in fold_directories(Path(), fold_count(train))]
    for push in [_push_of(train.push, name) for name in names] or [train.push]:
        check_destination(push, say)


def read_folds(run: Path) -> FoldsSummary:
    """Read the summary of cross-validation.

    Raises:
        ConfigError: not all folds are finished, or the file is damaged.
    """
    try:
        return decode_checksummed((run / FOLDS).read_bytes(), FoldsSummary)
    except (OSError, ValueError) as error:
        fix = "train the remaining folds with --all-folds"
        raise ConfigError("there is no finished cross-validation here", where=str(run), fix=fix) from error


def summarize_folds(name: str, runs: Iterable[Path]) -> FoldsSummary:
    """Return mean and standard deviation of each metric measured at the last step of finished runs."""
    jobs, figures, steps = [], [], []
    for run in runs:
        job = read_job(run)
        jobs.append(job.fingerprint)
        measured = [event for event in read_events(run) if event.kind == "validation"]
        figures.append(measured[-1].figures if measured else {})
        steps.append(measured[-1].step if measured else 0)
    names = dict.fromkeys(name for one in figures for name in one)
    return FoldsSummary(name, jobs, {name: _summarize([one.get(name) for one in figures]) for name in names}, steps)


def _push_of(push: PushConfig, fold: str) -> PushConfig:
    """Return the uploads of a fold: to a repository of its own."""
    return msgspec.structs.replace(push, to=f"{push.to}-{fold}") if push.to else push


def _tracker_of(tracker: TrackerName | TrackerConfig, fold: str) -> TrackerName | TrackerConfig:
    """Return a tracker of a fold: a name that the recipe gives would be that of all folds."""
    if isinstance(tracker, str) or not tracker.name:
        return tracker
    return msgspec.structs.replace(tracker, name=f"{tracker.name}-{fold}")


def _summarize(each: list[float | None]) -> MetricSummary:
    known = [value for value in each if value is not None]
    mean = statistics.fmean(known) if known else None
    return MetricSummary(mean, statistics.stdev(known) if len(known) > 1 else None, each)


def _required_fold_count(section: TrainConfig) -> int:
    number = fold_count(msgspec.structs.replace(section, fold=None))
    if not number:
        fix = "set labelled.folds, e.g. to 5, without validation_data"
        raise ConfigError("there are no folds to train", where="train.labelled.folds", fix=fix)
    return number
