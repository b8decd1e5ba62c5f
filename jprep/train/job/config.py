"""What is trained, and how: the recipe's `[train]` section, and the job that a run directory holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from jprep.corpus.config import parse_config
from jprep.dataset.labelled.reader import LabelledConfig
from jprep.dataset.sampling.masking import MaskingConfig
from jprep.dataset.sampling.sample_index import Packing
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError

Task = Literal["clm", "mlm", "classify", "regress"]
Precision = Literal["fp32", "bf16", "fp16"]

FORMAT = 1
"""Raised whenever run directories written before could not be gone on with."""


UNFINGERPRINTED_KEYS = ("log_every", "trackers", "max_restarts", "silent_minutes", "checkpoint", "validation")
"""Keys of `[train]` that no weight depends on: a run that has begun may go on with other ones."""


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the recipe: unknown keys are errors."""


class ModelConfig(_Config, frozen=True):
    """Which model.

    Attributes:
        preset: a name of `jprep.train.models.PRESETS`, or "" where `config` says everything.
        config: values of transformers' config, on top of the preset's; `model_type` among them.
        init: a safetensors file of initial weights under transformers' names; "": made from the seed.
    """

    preset: str = ""
    config: dict[str, Any] = {}
    init: str = ""


class OptimizerConfig(_Config, frozen=True):
    """AdamW as in docs/training.md: ε after bias correction, decay on tensors of two or more dimensions only.

    Attributes:
        lr: the highest learning rate.
        beta1, beta2, eps: Adam's.
        weight_decay: the share of a weight, times the learning rate, that goes each step.
        clip: the largest global norm of the gradient; 0 leaves it.
    """

    lr: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    clip: float = 1.0


class ScheduleConfig(_Config, frozen=True):
    """The learning rate over time.

    Attributes:
        kind: how it falls after the warm-up, to `floor`.
        warmup: steps in which it rises from 0.
        floor: the share of `lr` that it ends at.
        steps: at which step it reaches `floor`, where it stays; 0 for the end of the run.
    """

    kind: Literal["linear", "cosine", "constant"] = "linear"
    warmup: int = 0
    floor: float = 0.0
    steps: int = 0


class CheckpointConfig(_Config, frozen=True):
    """When a run is saved, and what is kept. It is saved at its end and on SIGTERM as well.

    Attributes:
        every_steps: 0 never.
        every_minutes: 0 never.
        keep_last: the newest ones.
        keep_best: and those with the lowest validation loss, which are saved when they are measured, whatever
            `every_steps` is.
    """

    every_steps: int = 1000
    every_minutes: float = 0.0
    keep_last: int = 2
    keep_best: int = 0


class ValidationConfig(_Config, frozen=True):
    """When the loss on the validation split is measured.

    Attributes:
        every_steps: 0 never.
        batches: how many; 0 for all of the split once.
    """

    every_steps: int = 0
    batches: int = 0


class TrainConfig(_Config, frozen=True):
    """The `[train]` section.

    Attributes:
        task: `clm`, `mlm`, `classify` or `regress`.
        model: which model.
        batch: rows of a global batch, whatever the number of devices.
        length: tokens of a row.
        packing: how documents become rows (`clm`, `mlm`).
        masking: what `mlm` hides.
        data: files of labelled rows (`classify`, `regress`).
        validation_data: and those to validate on; empty takes a fold where there are folds.
        labelled: the columns of these files.
        fold: the fold that is held out and validated on, from 0.
        steps: how many; 0 where `epochs` says it.
        epochs: passes over the training split; 0 where `steps` says it.
        seed: of weights, order, masks and dropout.
        precision: of the arithmetic; weights and optimizer stay in fp32.
        optimizer, schedule, checkpoint, validation: see there.
        log_every: steps between two lines of figures.
        trackers: what figures are written for, beside events.jsonl: `tensorboard`, `wandb`; an empty list for nothing.
        max_restarts: how often a dead or silent worker is started again before the run fails.
        silent_minutes: a worker that says nothing for so long is taken for dead.
        backend: backend → its own options, checked by its schema.
    """

    task: Task = "clm"
    model: ModelConfig = ModelConfig()
    batch: int = 32
    length: int = 512
    packing: Packing = "stream"
    masking: MaskingConfig = MaskingConfig()
    data: list[str] = []
    validation_data: list[str] = []
    labelled: LabelledConfig = LabelledConfig()
    fold: int = 0
    steps: int = 0
    epochs: float = 0.0
    seed: int = 1
    precision: Precision = "fp32"
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    validation: ValidationConfig = ValidationConfig()
    log_every: int = 10
    trackers: list[Literal["tensorboard", "wandb"]] = msgspec.field(default_factory=lambda: ["tensorboard"])
    max_restarts: int = 10
    silent_minutes: float = 30.0
    backend: dict[str, dict[str, Any]] = {}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`job.json`: all that a worker has to know.

    Attributes:
        jprep: the version that wrote it.
        format: of the run directory, see `FORMAT`.
        name: the run's.
        fingerprint: hash of what the weights depend on: all but paths, the backend, and its options but for `computed`.
        backend: the backend's name.
        options: the backend's own.
        computed: of these, those that change what is computed.
        made_from: what stands for the data in the fingerprint: hashes of the tokenizer, the dataset or labelled rows,
            and initial weights that were given; empty in jobs of earlier versions.
        earlier: the fingerprints that the run had before its `steps` were raised; their checkpoints are its own.
        train: the section, defaults filled in.
        model: transformers' whole config, as plain data: `model_type`, `vocab_size`, ids of special tokens and all.
        parameters: how many weights the model has.
        steps: how many steps the run has.
        samples: rows in one epoch of the training split.
        dataset: the dataset's folder, relative to the run directory where it can be; "" for labelled data.
        tokenizer: the tokenizer's folder, in the same way.
        special: special ids, as samples need them.
        labels: the names of classes in the order of their ids; empty but for `classify`.
    """

    jprep: str
    format: int
    name: str
    fingerprint: str
    backend: str
    options: dict[str, Any]
    train: TrainConfig
    model: dict[str, Any]
    parameters: int
    steps: int
    samples: int
    dataset: str
    tokenizer: str
    special: SpecialIds
    labels: list[str] = []
    computed: dict[str, Any] = {}
    made_from: dict[str, Any] = {}
    earlier: list[str] = []


def parse_train_config(section: Mapping[str, Any], where: str) -> TrainConfig:
    """Check a `[train]` section.

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of its range, keys that exclude each other.
    """
    config = parse_config(dict(section), TrainConfig, where=where)
    for key, least in (("batch", 1), ("length", 2), ("steps", 0), ("log_every", 1), ("max_restarts", 0)):
        if getattr(config, key) < least:
            raise ConfigError(f"train.{key} must be at least {least}", where=where, fix=f"e.g. {key} = {least}")
    _check_end(config, where)
    _check_data(config, where)
    _check_fold(config, where)
    return config


def _check_end(config: TrainConfig, where: str) -> None:
    if config.steps and config.epochs:
        fix = "`--set train.steps=0` takes one away"
        raise ConfigError("both steps and epochs are given, and one says how long to train", where=where, fix=fix)
    if not config.steps and not config.epochs:
        fix = "steps = 10000, or epochs = 1"
        raise ConfigError("say how long to train: either steps or epochs", where=where, fix=fix)


def _check_data(config: TrainConfig, where: str) -> None:
    labelled = config.task in ("classify", "regress")
    if labelled and not config.data:
        raise ConfigError(f"{config.task} needs labelled data", where=where, fix='add data = ["train.jsonl"]')
    if config.data and not labelled:
        fix = "leave `data` out; classify and regress have it"
        raise ConfigError(f"{config.task} reads the dataset, and no labelled data", where=where, fix=fix)


def _check_fold(config: TrainConfig, where: str) -> None:
    folds = config.labelled.folds
    if config.fold and (not folds or config.validation_data):
        fix = "labelled.folds = 5, without validation_data"
        raise ConfigError("train.fold is held out of folds, and there are none", where=where, fix=fix)
    if not 0 <= config.fold < max(1, folds):
        raise ConfigError(f"there is no fold {config.fold}", where=where, fix=f"train.fold = 0 to {max(1, folds) - 1}")
