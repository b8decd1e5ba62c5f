"""From a recipe's `[train]` section, a tokenizer and a dataset to the job that a run directory holds."""

from __future__ import annotations

import contextlib
import math
import os
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from jprep.dataset.manifest import TRAIN, VALIDATION, DatasetManifest, read_dataset
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import SpecialIds, special_ids, special_ids_for_task
from jprep.errors import ConfigError, InputError
from jprep.io.atomic import file_sha256
from jprep.tokenizer import load_tokenizer
from jprep.train.job.config import FORMAT, Job, TrainConfig
from jprep.train.job.fingerprint import job_fingerprint
from jprep.train.job.labelled_data import read_labelled_splits
from jprep.train.job.schedule import check_schedule
from jprep.train.models import TokenizerInfo, model_config, parameter_count
from jprep.train.models.initial_weights import check_init_file
from jprep.train.run.directory import JOB, read_job

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer


class _DataSummary(NamedTuple):
    """What a job learns of its data.

    Attributes:
        number: rows in one epoch.
        labels: names of classes.
        made_from: what stands for the data in the fingerprint.
    """

    number: int
    labels: tuple[str, ...]
    made_from: dict[str, Any]


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
) -> Job:
    """Work out all that a run has to know.

    Args:
        train: the recipe's section, from `train_section`. Its paths are relative to the working directory.
        name: the run's.
        backend: the backend's name.
        options: its own options, checked by it.
        tokenizer: the tokenizer's folder.
        dataset: the dataset's, for `clm` and `mlm`.
        run: the run directory, which the job's paths are relative to; None leaves them absolute.
        lists: where lists of samples go; by default beside the dataset.
        computed: those of its options that change what is computed.

    Raises:
        ConfigError: a number that is out of its range, or parts that do not fit together.
        InputError: a labelled row that cannot be used, or a damaged file of weights.
    """
    _check_numbers(train)
    loaded = load_tokenizer(tokenizer)
    special = _special(train, loaded, run)
    samples = _labelled_samples(train, loaded) if train.data else _samples(train, loaded, special, dataset, lists)
    config = model_config(train.model, train.task, _about(train, loaded, samples.labels))
    initial = _initial(train, config)
    steps = train.steps or math.ceil(Fraction(repr(train.epochs)) * samples.number / train.batch)
    check_schedule(train.schedule, steps)
    placed = _placed(train, run)
    made_from = {"tokenizer": loaded.card.fingerprint, "init": initial, **samples.made_from}
    made_from |= {} if special == special_ids(loaded) else {"around": "nothing"}
    return Job(
        jprep=version("jprep"),
        format=FORMAT,
        name=name,
        fingerprint=job_fingerprint(train, config, steps, made_from, computed or {}),
        backend=backend,
        options=options,
        train=placed,
        model=config,
        parameters=parameter_count(config, train.task),
        steps=steps,
        samples=samples.number,
        dataset="" if train.data or dataset is None else _place(dataset, run),
        tokenizer=_place(tokenizer, run),
        special=special,
        labels=list(samples.labels),
        computed=computed or {},
        made_from=made_from,
    )


def _special(train: TrainConfig, tokenizer: Tokenizer, run: Path | None) -> SpecialIds:
    """The special ids around the job's rows. jprep 0.1.0 put all of them around rows of running text; a run that it
    began keeps them."""
    special = special_ids(tokenizer)
    with contextlib.suppress(ConfigError):  # a damaged job.json is for whoever opens the run
        begun = read_job(run) if run and (run / JOB).exists() else None
        if begun and begun.train.task == train.task and begun.special == special:
            return special
    return special_ids_for_task(special, train.task, train.packing)


def _labelled_samples(train: TrainConfig, tokenizer: Tokenizer) -> _DataSummary:
    if train.task not in ("classify", "regress"):
        fix = "`data` is for classify and regress"
        raise ConfigError("the task and its data do not fit", where="train.data", fix=fix)
    found = read_labelled_splits(train, tokenizer)
    names = found.data.names
    if train.task == "classify" and len(names) < 2:
        fix = f"the column {train.labelled.label!r} holds the labels: name another one as train.labelled.label"
        raise ConfigError(f"there is one label only: {', '.join(names)}", where=", ".join(train.data), fix=fix)
    if train.validation.every_steps and not len(found.validation_rows):
        fix = "validation.every_steps = 0, or validation_data, or labelled.folds = 5"
        raise ConfigError("there is nothing to validate on", where=", ".join(train.data), fix=fix)
    return _DataSummary(len(found.rows), names, {"data": [file_sha256(Path(path)) for path in train.data]})


def _samples(
    train: TrainConfig, tokenizer: Tokenizer, special: SpecialIds, folder: Path | None, lists: Path | None
) -> _DataSummary:
    if train.task in ("classify", "regress"):
        fix = 'train.data = ["train.jsonl"]'
        raise ConfigError(f"{train.task} needs labelled data", where="train.data", fix=fix)
    if folder is None:
        fix = "`jprep dataset pack` makes one"
        raise ConfigError(f"{train.task} needs a dataset", where="train.task", fix=fix)
    dataset = read_dataset(folder)
    _check_agreement(dataset, folder, tokenizer)
    masking = None
    if train.task == "mlm":
        masking = _masking(train, dataset, folder, special)
    if train.validation.every_steps and not any(one.tokens for one in dataset.splits if one.name == VALIDATION):
        fix = "validation.every_steps = 0, or pack the dataset with [dataset] validation = 0.005"
        raise ConfigError("there is nothing to validate on", where=str(folder), fix=fix)
    config = SamplerConfig(batch=train.batch, length=train.length, packing=train.packing, seed=train.seed)
    sampler = Sampler(open_split_data(folder, TRAIN, lists), config, special, masking)
    return _DataSummary(sampler.samples, (), {"dataset": dataset.fingerprint})


def _check_agreement(dataset: DatasetManifest, folder: Path, tokenizer: Tokenizer) -> None:
    if dataset.made_from["tokenizer"]["fingerprint"] != tokenizer.card.fingerprint:
        fix = f"give the tokenizer that it was packed with, or pack it again with {tokenizer.folder}"
        raise ConfigError("the dataset was packed with another tokenizer", where=str(folder), fix=fix)
    if dataset.vocab_size != tokenizer.vocab_size:
        what = f"the dataset has {dataset.vocab_size} ids, and the tokenizer {tokenizer.vocab_size}"
        raise ConfigError(what, where=str(folder), fix="`jprep dataset pack … --restart` packs it again")


def _masking(train: TrainConfig, dataset: DatasetManifest, folder: Path, special: SpecialIds) -> Any:
    from jprep.dataset.sampling.masking import Masking

    if special.mask is None:
        fix = 'train a tokenizer with special = ["roberta"] or ["bert"], or take task = "clm"'
        raise ConfigError("mlm needs a mask token, and the tokenizer has none", where="train.task", fix=fix)
    if train.masking.whole_word and not dataset.made_from.get("segmenter"):
        fix = "masking.whole_word = false, or build the corpus with a segmenter"
        raise ConfigError("whole_word needs words, and the corpus was not segmented", where=str(folder), fix=fix)
    return Masking(train.masking, special, dataset.newline)


def _about(train: TrainConfig, tokenizer: Tokenizer, labels: tuple[str, ...]) -> TokenizerInfo:
    length = train.labelled.length if train.data else train.length
    return TokenizerInfo(tokenizer.vocab_size, length, tokenizer.bos, tokenizer.eos, tokenizer.pad, labels)


def _initial(train: TrainConfig, config: dict[str, Any]) -> str:
    """The SHA-256 of the weights that a file gives, if one does, after a look at what it holds."""
    if not train.model.init:
        return ""
    path = Path(train.model.init)
    check_init_file(config, train.task, path)
    sha256 = file_sha256(path)
    _refuse_damaged_export(path, sha256)
    return sha256


def _refuse_damaged_export(path: Path, sha256: str) -> None:
    """Raise InputError where a file lies in an exported model and is not what was exported."""
    from jprep.train.exporting.manifest import MANIFEST, read_export

    if (path.parent / MANIFEST).exists() and read_export(path.parent).files.get(path.name, sha256) != sha256:
        fix = "`jprep export` writes it again; or copy the file out of this folder, if it was changed on purpose"
        raise InputError("this file is not what was exported", where=str(path), fix=fix)


def _check_numbers(train: TrainConfig) -> None:
    optimizer, checkpoint, validation = train.optimizer, train.checkpoint, train.validation
    above, least, shares = "a number above 0", "0 or more", "a number from 0 to below 1"
    for key, well, fix in (
        ("epochs", 0 <= train.epochs < math.inf, least),
        ("seed", 0 <= train.seed < 1 << 63, "a whole number from 0 to below 2**63"),
        ("silent_minutes", train.silent_minutes > 0, above),
        ("optimizer.lr", 0 < optimizer.lr < math.inf, above),
        ("optimizer.beta1", 0 <= optimizer.beta1 < 1, shares),
        ("optimizer.beta2", 0 <= optimizer.beta2 < 1, shares),
        ("optimizer.eps", 0 < optimizer.eps < math.inf, above),
        ("optimizer.weight_decay", 0 <= optimizer.weight_decay < math.inf, least),
        ("optimizer.clip", 0 <= optimizer.clip < math.inf, least),
        ("checkpoint.every_steps", checkpoint.every_steps >= 0, least),
        ("checkpoint.every_minutes", checkpoint.every_minutes >= 0, least),
        ("checkpoint.keep_last", checkpoint.keep_last >= 1, "1 or more: a run goes on from the newest one"),
        ("checkpoint.keep_best", checkpoint.keep_best >= 0, least),
        ("validation.every_steps", validation.every_steps >= 0, least),
        ("validation.batches", validation.batches >= 0, least),
    ):
        if not well:
            raise ConfigError(f"train.{key} is out of its range", where=f"train.{key}", fix=f"give {fix}")


def _placed(train: TrainConfig, run: Path | None) -> TrainConfig:
    """The section, its paths as the run directory has them."""
    model = train.model
    if model.init:
        model = msgspec.structs.replace(model, init=_place(Path(model.init), run))
    data, validation = ([_place(Path(path), run) for path in paths] for paths in (train.data, train.validation_data))
    return msgspec.structs.replace(train, model=model, data=data, validation_data=validation)


def _place(path: Path, run: Path | None) -> str:
    return str(path.resolve()) if run is None else Path(os.path.relpath(path.resolve(), run.resolve())).as_posix()
