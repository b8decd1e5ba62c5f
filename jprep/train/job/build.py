"""Build a job from the recipe's `[train]` section, a tokenizer, and a dataset or labelled rows."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jprep.dataset.mix import MixConfig
from jprep.dataset.sampling.special_ids import SpecialIds, special_ids, special_ids_for_task
from jprep.errors import ConfigError
from jprep.tokenizer import load_tokenizer
from jprep.train.hooks.config import HOOKS
from jprep.train.job.best import check_best
from jprep.train.job.config import FORMAT, GIVEN_STATE, Job, TrainConfig
from jprep.train.job.data_summary import DataSummary, summarize_conversations, summarize_dataset, summarize_labelled
from jprep.train.job.features import check_documents
from jprep.train.job.fingerprint import job_fingerprint
from jprep.train.job.ranges import check_train_ranges
from jprep.train.job.tracking import TrackerConfig, TrackerName
from jprep.train.models import TokenizerInfo, model_config, parameter_count
from jprep.train.optimization.schedule import check_schedule
from jprep.train.pretrained.halves import with_generator
from jprep.train.pretrained.init import hash_init, pretrained_config
from jprep.train.pretrained.location import resolve_init
from jprep.train.run.directory import JOB, read_job

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer
    from jprep.train.hooks.inspection import InspectHooks

_DROPOUT_MASKS = 2
"""How new runs draw masks of dropout, see `Job`."""


def build_job(
    train: TrainConfig,
    name: str,
    backend: str,
    options: dict[str, Any],
    tokenizer: Path,
    dataset: Path | None = None,
    *,
    run: Path | None = None,
    lists: Path | None = None,
    computed: dict[str, Any] | None = None,
    inspect_hooks: InspectHooks | None = None,
    mix: MixConfig | None = None,
) -> Job:
    """Build the job of a run.

    Args:
        train: the recipe's section, from `parse_train_config`. Its paths are relative to the working directory.
        name: the name of a new run; an existing one keeps its name.
        backend: the backend's name.
        options: the backend's own options, checked by it.
        tokenizer: the tokenizer's folder, or its name on the Hub.
        dataset: the dataset's folder, for `clm`, `mlm` and `rtd`.
        run: the run directory, which the job's paths are made relative to; None makes them absolute.
        lists: where lists of samples are stored; None stores them in the dataset.
        computed: those backend options that change the result.
        inspect_hooks: checks the hooks of the section; None if it has none.
        mix: how the sources of the dataset are mixed.

    Raises:
        ConfigError: a number is out of its range, or tokenizer, dataset, model and section do not fit together.
        InputError: a labelled row that cannot be used, or a damaged file of initial weights.
    """
    train = msgspec.structs.replace(train, fold=train.fold or 0)
    check_best(train)
    check_train_ranges(train)
    train = resolve_init(train)
    given = pretrained_config(train)
    loaded = load_tokenizer(tokenizer)
    existing = _existing_job(run)
    special = _special_ids(train, loaded, existing)
    mix = None if train.data else mix
    data = _summarize(train, loaded, special, dataset, lists, mix)
    about = _tokenizer_info(train, loaded, data.labels)
    model = model_config(
        train.model, train.objective, about, given, next_sentence=train.next_sentence, rtd=with_generator(train, given)
    )
    check_documents(train, model["model_type"])
    made_from = {"tokenizer": loaded.card.fingerprint, **hash_init(train, model, loaded), **data.made_from}
    made_from |= {} if special == special_ids(loaded) else {"around": "nothing"}
    if inspect_hooks:
        hooks, additions = inspect_hooks(model)
        model, made_from = model | additions, made_from | {HOOKS: msgspec.to_builtins(hooks)}
    steps = _count_steps(train, data, made_from)
    return Job(
        jprep=version("jprep"),
        format=FORMAT,
        name=existing.name if existing else name,
        fingerprint=job_fingerprint(train, model, steps, made_from, computed or {}),
        backend=backend,
        options=options,
        train=_with_paths_from(train, run),
        model=model,
        parameters=parameter_count(model, train.objective),
        steps=steps,
        samples=data.samples,
        dataset="" if train.data or dataset is None else _path_from(dataset, run),
        tokenizer=_path_from(loaded.folder, run),
        special=special,
        labels=list(data.labels),
        class_weights=list(data.class_weights),
        computed=computed or {},
        made_from=made_from,
        mix=mix,
        sources=data.seen(steps * train.batch) if data.seen else [],
        chat=data.chat,
        rows=data.rows,
        dropout_masks=existing.dropout_masks if existing else _DROPOUT_MASKS,
    )


def _summarize(
    train: TrainConfig,
    tokenizer: Tokenizer,
    special: SpecialIds,
    dataset: Path | None,
    lists: Path | None,
    mix: MixConfig | None,
) -> DataSummary:
    """Return what the job needs to know of its conversations, labelled rows or dataset."""
    if train.task == "sft":
        return summarize_conversations(train, tokenizer, special)
    if train.data:
        return summarize_labelled(train, tokenizer)
    return summarize_dataset(train, tokenizer, special, dataset, lists, mix)


def _special_ids(train: TrainConfig, tokenizer: Tokenizer, existing: Job | None) -> SpecialIds:
    """Return the special ids around the job's rows.

    jprep 0.1.0 put all of them around rows of running text; a run that it began keeps them.
    """
    special = special_ids(tokenizer)
    if existing and existing.train.task == train.task and existing.special == special:
        return special
    return special_ids_for_task(special, train.objective, train.packing)


def _existing_job(run: Path | None) -> Job | None:
    with contextlib.suppress(ConfigError):  # a damaged job.json is reported when the run is opened
        return read_job(run) if run and (run / JOB).exists() else None
    return None


def _tokenizer_info(train: TrainConfig, tokenizer: Tokenizer, labels: tuple[str, ...]) -> TokenizerInfo:
    length = train.longest
    return TokenizerInfo(tokenizer.vocab_size, length, tokenizer.bos, tokenizer.eos, tokenizer.pad, labels)


def _count_steps(train: TrainConfig, data: DataSummary, made_from: Mapping[str, Any]) -> int:
    """Return the number of steps, after a check that the schedule and the training that is continued fit them."""
    steps = train.steps or math.ceil(Fraction(repr(train.epochs)) * data.samples / train.batch)
    check_schedule(train.schedule, steps)
    done = made_from.get(GIVEN_STATE, {}).get("step", 0)
    if steps <= done:
        what = f"the training to continue has done {done:,} steps, and this run would end after {steps:,}"
        raise ConfigError(what, where="train.steps", fix=f"set train.steps to the total, above {done:,}")
    return steps


def _with_paths_from(train: TrainConfig, run: Path | None) -> TrainConfig:
    """Return the section with its paths relative to the run directory."""
    model = train.model
    if model.init:
        model = msgspec.structs.replace(model, init=_path_from(Path(model.init), run))
    sft, rtd = train.sft, train.rtd
    if sft.template:
        sft = msgspec.structs.replace(sft, template=_path_from(Path(sft.template), run))
    if rtd.generator_init and train.task == "rtd":
        rtd = msgspec.structs.replace(rtd, generator_init=_path_from(Path(rtd.generator_init), run))
    data, validation = ([_path_from(Path(one), run) for one in paths] for paths in (train.data, train.validation_data))
    trackers = [_tracker_with_path_from(one, run) for one in train.trackers]
    return msgspec.structs.replace(
        train, model=model, rtd=rtd, sft=sft, data=data, validation_data=validation, trackers=trackers
    )


def _tracker_with_path_from(tracker: TrackerName | TrackerConfig, run: Path | None) -> TrackerName | TrackerConfig:
    """Return a tracker with its folder relative to the run directory."""
    if isinstance(tracker, str) or not tracker.log_dir or ":" in tracker.log_dir:
        return tracker
    return msgspec.structs.replace(tracker, log_dir=_path_from(Path(tracker.log_dir), run))


def _path_from(path: Path, run: Path | None) -> str:
    return str(path.resolve()) if run is None else Path(os.path.relpath(path.resolve(), run.resolve())).as_posix()
