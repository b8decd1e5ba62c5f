"""Measure a checkpoint of a run, or its initial weights, on a test split or on other rows."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.config import apply_overrides, parse_config
from jprep.dataset.labelled.reader import Encoding
from jprep.dataset.sampling.sampler import TextSampler
from jprep.dataset.sampling.staged import StagedSampler
from jprep.errors import ConfigError, JprepError
from jprep.io.temporary import temporary_directory
from jprep.train.backend import Backend, Plan
from jprep.train.backend_loading import load_backend
from jprep.train.evaluation.data import EvaluationData, choose_data
from jprep.train.evaluation.records import Evaluation
from jprep.train.evaluation.weights import select_weights
from jprep.train.evaluation.worker import link_run, measure
from jprep.train.hooks.config import HOOKS
from jprep.train.job.config import Job, Precision
from jprep.train.job.features import check_features, check_task
from jprep.train.launcher.environments import worker_python
from jprep.train.planning.family_check import check_family
from jprep.train.planning.host import this_host
from jprep.train.results.perplexity import perplexity
from jprep.train.run.directory import CHECKPOINTS, INIT, START, read_job
from jprep.train.worker.batches import AnySampler, Batches


class _LabelledFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of `[train.labelled]` that an evaluation takes for files of its own."""

    text: str
    pair: str
    label: str
    header: bool
    columns: list[str]
    encoding: Encoding


class _Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of `[train]` that an evaluation takes."""

    batch: int
    precision: Precision
    labelled: _LabelledFile
    backend: dict[str, dict[str, Any]] = {}


def evaluate(
    run: Path,
    data: Sequence[Path] = (),
    *,
    split: str = "",
    source: str = "",
    which: str = "",
    backend_name: str = "",
    settings: Sequence[str] | Mapping[str, Any] = (),
) -> Evaluation:
    """Measure a checkpoint on a test split or on other rows. The run may be training meanwhile.

        found = evaluate(Path("work/jawiki/runs/torch"), split="test")
        print(found.figures["loss"])

    Args:
        run: the run directory, which is only read.
        data: the rows to measure, see `jprep.train.evaluation.data.choose_data`.
        split: the split of a dataset; by default `test`, or `validation` if there is no test split.
        source: the source of the dataset; by default all.
        which: the checkpoint: `last`, `best` or a step; by default `best` of a training that ended early and keeps it,
            else `last`. `initial` for the weights that the training began with.
        backend_name: the backend that measures; by default that of the run.
        settings: values by key, or `KEY=VALUE` strings: `train.batch`, `train.precision`, `train.backend.NAME.OPTION`;
            and for labelled rows of `data` the columns and the encoding, e.g. `train.labelled.text`.

    Returns:
        What was measured: the loss and the metrics of a validation, each row once and without dropout; for `clm`, `mlm`
        and `sft` also the perplexity; for `clm` on a dataset also bits per byte of the text.

    Raises:
        ConfigError: there is no run, no such checkpoint or no such data, or the backend cannot measure it.
        MismatchError: data of the run has changed since the training.
        InputError: the checkpoint or a row is damaged.
        MachineError: the backend is not installed, or memory or the disk is full.
    """
    job = read_job(run)
    weights = select_weights(run, job, which)
    backend = _backend(backend_name or job.backend, job)
    changed = _with_settings(job, backend, settings)
    columns = _changed_columns(job, changed, data)
    chosen = choose_data(run, changed, data, split, source)
    check_features(chosen.job.train, backend.name, backend.features)
    with temporary_directory("jprep-evaluate-") as work, _errors_of(run, work):
        link_run(work, run, chosen.job, weights)
        rows = Batches(work, chosen.job, chosen.job_split).validation
        plan = _plan(backend, chosen.job, work)
        measured = measure(work, chosen.job, plan, weights, chosen.job_split)
    return Evaluation(
        job=job.fingerprint,
        step=weights.step,
        checkpoint=weights.hash,
        initial=not weights.checkpoint,
        columns=columns,
        backend=backend.name,
        precision=chosen.job.train.precision,
        name=chosen.name,
        data=[str(path.resolve()) for path in chosen.paths],
        split=chosen.split,
        source=chosen.source,
        made_from=chosen.made_from,
        rows=rows.samples,
        figures=_with_derived(measured, chosen),
        counts=_counts(rows, chosen.job),
        seen=chosen.seen,
    )


def _counts(rows: AnySampler, job: Job) -> dict[str, int]:
    """Return how many rows of files were read, cut and left out; nothing of a fold, which is a part of its files."""
    if isinstance(rows, TextSampler | StagedSampler) or job.train.labelled.folds:
        return {}
    return dict(rows.counts)


def _backend(name: str, job: Job) -> Backend:
    """Return a backend that can measure a job."""
    backend = load_backend(name)
    if not backend.evaluates:
        what, fix = f"the backend {name} cannot evaluate a run", "give another one, e.g. --backend torch"
        raise ConfigError(what, where="--backend", fix=fix)
    check_task(job.train.task, backend.name, backend.tasks)
    return backend


@contextlib.contextmanager
def _errors_of(run: Path, work: Path) -> Iterator[None]:
    """Let errors of the block name the run and its files, and not the temporary directory that links to them."""
    linked = "|".join(map(re.escape, (HOOKS, CHECKPOINTS, START, INIT)))
    place = re.compile(re.escape(str(work)) + rf"(?=/(?:{linked})|\s|$)")
    try:
        yield
    except JprepError as error:
        texts = {name: place.sub(lambda _: str(run), getattr(error, name)) for name in ("what", "where", "fix")}
        raise error.replace(**texts) from error


def _with_settings(job: Job, backend: Backend, settings: Sequence[str] | Mapping[str, Any]) -> Job:
    """Return the job with the settings of an evaluation, for a backend that may be another one than the run's."""
    options = {backend.name: job.options} if backend.name == job.backend else {}
    train = job.train
    labelled = {name: getattr(train.labelled, name) for name in _LabelledFile.__struct_fields__}
    given = {"batch": train.batch, "precision": train.precision, "labelled": labelled, "backend": options}
    raw = apply_overrides({"train": msgspec.to_builtins(given)}, settings)
    if set(raw) > {"train"}:
        what = f"an evaluation takes keys of train, not of {', '.join(sorted(set(raw) - {'train'}))}"
        raise ConfigError(what, where="--set", fix=f"e.g. --set train.backend.{backend.name}.micro_batch=1")
    found = parse_config(raw["train"], _Settings, where="train")
    if others := found.backend.keys() - {backend.name}:
        other, fix = min(others), f"give options of {backend.name}, or --backend {min(others)}"
        raise ConfigError(f"the run is evaluated by {backend.name}", where=f"--set train.backend.{other}", fix=fix)
    options = msgspec.to_builtins(backend.read_options(found.backend.get(backend.name, {})))
    columns = msgspec.structs.replace(train.labelled, **msgspec.structs.asdict(found.labelled))
    section = msgspec.structs.replace(train, batch=found.batch, precision=found.precision, labelled=columns)
    return msgspec.structs.replace(job, train=section, backend=backend.name, options=options)


def _changed_columns(job: Job, changed: Job, data: Sequence[Path]) -> dict[str, Any]:
    """Return the settings of labelled rows that differ from those of the training."""
    before, after = job.train.labelled, changed.train.labelled
    names = [name for name in _LabelledFile.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    if names and not job.train.has_labelled_rows:
        what = f"the task {job.train.task} has no labelled rows"
        raise ConfigError(what, where=f"--set train.labelled.{names[0]}", fix="leave it out")
    if names and not data:
        what, fix = "the rows that the run held out have the columns of the run", "leave it out, or give --data FILE"
        raise ConfigError(what, where=f"--set train.labelled.{names[0]}", fix=fix)
    return {name: getattr(after, name) for name in names}


def _plan(backend: Backend, job: Job, work: Path) -> Plan:
    options = backend.read_options(job.options)
    python = worker_python(backend, options)
    check_family(backend, job.model, options, python)
    return backend.plan(job, work, this_host(python))


def _with_derived(measured: dict[str, float | None], chosen: EvaluationData) -> dict[str, float | None]:
    """Return the figures of a validation, and those that follow from its loss."""
    loss, found = measured.get("loss"), perplexity(chosen.job, measured)
    if loss is None or found is None:
        return measured
    figures = measured | {"perplexity": found}
    if chosen.job.train.task == "clm" and chosen.tokens_per_byte:
        figures["bits_per_byte"] = loss / math.log(2) * chosen.tokens_per_byte
    return figures
