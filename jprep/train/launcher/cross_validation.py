"""A labelled job once for each fold, and what the folds come to."""

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
from jprep.train.job.config import parse_train_config
from jprep.train.launcher.launch import PreparedRun, prepare_run, train
from jprep.train.run.directory import read_job
from jprep.train.run.events import read_events

FOLDS = "folds.json"


class MetricSummary(msgspec.Struct, frozen=True):
    """A figure of validation over all folds.

    Attributes:
        mean: of the folds where it is defined; None where it is in none.
        deviation: their standard deviation, of a sample (n - 1); None for fewer than two.
        each: of each fold in order; None where it is not defined.
    """

    mean: float | None
    deviation: float | None
    each: list[float | None]


class FoldsSummary(msgspec.Struct, frozen=True):
    """`folds.json`.

    Attributes:
        name: the run's.
        jobs: the fingerprint of each fold's job.
        figures: by name, at the last step of each fold; `loss` among them.
    """

    name: str
    jobs: list[str]
    figures: dict[str, MetricSummary]


def fold_count(section: Mapping[str, Any]) -> int:
    """How many folds a recipe's raw `[train]` is trained for, one after the other.

    Returns:
        0 where it divides no rows, has others to validate on, or names the one fold that is held out.

    Raises:
        ConfigError: nothing is measured on them, or a value is wrong.
    """
    train = parse_train_config(section, "[train]")
    if "fold" in section or train.validation_data or not train.labelled.folds:
        return 0
    if not train.validation.every_steps:
        fix = "train.validation.every_steps = 100; it is measured at the last step in any case"
        raise ConfigError("nothing would be measured on the folds", where="train.validation.every_steps", fix=fix)
    return train.labelled.folds


def fold_directories(run: Path, number: int) -> list[Path]:
    """The run directories of so many folds."""
    return [run / f"fold-{fold}" for fold in range(number)]


def train_folds(
    section: Mapping[str, Any],
    name: str,
    backend: str,
    run: Path,
    tokenizer: Path,
    *,
    through: Callable[[PreparedRun], int] = train,
) -> int:
    """Train a section once for each of its folds, in RUN/fold-0 and so on, and sum them up in RUN/folds.json.

    A fold that is finished is not trained again, one that was stopped goes on.

    Args:
        section: the recipe's raw `[train]`; its `fold` is left out.
        name: the run's.
        backend: the backend's name.
        run: the folder of the folds' run directories.
        tokenizer: the tokenizer's folder.
        through: brings one run to its end, and returns its exit code.

    Returns:
        0; or the code that a fold's training ended with, and the same call goes on.

    Raises:
        ConfigError: there are no folds, nothing is measured on them, or the folder holds something else.
        JprepError: see `jprep.train.launcher.launch.prepare_run` and `train`.
    """
    places = fold_directories(run, _number(section))
    OutputDirectory(run, KIND).check()
    for fold, place in enumerate(places):
        one = {**section, "fold": fold}
        if code := through(prepare_run(one, f"{name}/{place.name}", backend, place, tokenizer, None)):
            return code
    write_atomic(run / FOLDS, encode_checksummed(summarize_folds(name, places), indent=1))
    return 0


def read_folds(run: Path) -> FoldsSummary:
    """What the folds of a run came to.

    Raises:
        ConfigError: they are not finished, or the file is damaged.
    """
    try:
        return decode_checksummed((run / FOLDS).read_bytes(), FoldsSummary)
    except (OSError, ValueError) as error:
        fix = "`jprep train … --all-folds` trains what is missing and writes it"
        raise ConfigError("there is no finished training of all folds here", where=str(run), fix=fix) from error


def summarize_folds(name: str, runs: Iterable[Path]) -> FoldsSummary:
    """Mean and standard deviation of each figure that was measured at the last step of finished runs."""
    jobs, figures = [], []
    for run in runs:
        job = read_job(run)
        jobs.append(job.fingerprint)
        measured = [event for event in read_events(run) if event.kind == "validation" and event.step == job.steps]
        figures.append(measured[-1].figures if measured else {})
    names = dict.fromkeys(name for one in figures for name in one)
    return FoldsSummary(name, jobs, {name: _figure([one.get(name) for one in figures]) for name in names})


def _figure(each: list[float | None]) -> MetricSummary:
    known = [value for value in each if value is not None]
    mean = statistics.fmean(known) if known else None
    return MetricSummary(mean, statistics.stdev(known) if len(known) > 1 else None, each)


def _number(section: Mapping[str, Any]) -> int:
    number = fold_count({key: value for key, value in section.items() if key != "fold"})
    if not number:
        fix = "labelled.folds = 5, without validation_data"
        raise ConfigError("there are no folds to train", where="train.labelled.folds", fix=fix)
    return number
