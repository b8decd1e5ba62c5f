"""The recipe's `[train]` section, and the job of a run (`job.json`) that is built from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from jprep.config import parse_config
from jprep.dataset.conversations.config import Chat, SftConfig
from jprep.dataset.labelled.reader import LabelledConfig, RowCounts
from jprep.dataset.mix import MixConfig
from jprep.dataset.sampling.config import LengthStage, MaskingConfig, Packing
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.train.hooks.config import HooksConfig
from jprep.train.hosts.submit_config import SubmitConfig
from jprep.train.job.features import check_feature_values, check_next_sentence, check_sft, with_task_features
from jprep.train.job.push import PushConfig, check_push
from jprep.train.job.renamed import rename_schedule
from jprep.train.job.rtd import RtdConfig, check_rtd
from jprep.train.job.samples import SamplesConfig, check_samples
from jprep.train.job.tracking import TrackerConfigs, check_tracker_configs
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep.train.optimization.schedule import ScheduleConfig
from jprep.train.uploads.mirror_url import check_mirror_url

Task = Literal["clm", "mlm", "rtd", "classify", "regress", "sft"]
LABELLED_TASKS: tuple[Task, ...] = ("classify", "regress")  # of rows with one label each
Precision = Literal["fp32", "bf16", "fp16"]


def objective_of(task: Task) -> Task:
    """Return the task whose model and loss a task has: `clm` for `sft`, whose rows alone are others."""
    return "clm" if task == "sft" else task


FORMAT = 1
"""The version of the run directory's layout: raised when earlier runs can no longer be resumed."""

GIVEN_STATE = "training"
"""The entry of `Job.made_from` with the step at which a run continues another training."""

UNFINGERPRINTED_KEYS = (
    "log_every", "trackers", "max_restarts", "silent_minutes", "checkpoint", "validation", "push", "samples",
    "hosts", "submit",
)  # fmt: skip
"""Keys of `[train]` that no weight depends on: a run may be resumed with other values."""


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the recipe. Unknown keys are errors."""


class ModelConfig(_Config, frozen=True):
    """The model.

    Attributes:
        preset: a name in `jprep.train.models.PRESETS`; "" if `config` defines the model.
        config: values of transformers' config that override the preset's, `model_type` among them.
        init: the initial weights: a safetensors file under transformers' names; a folder in Hugging Face form, or its
            name on the Hub (`org/name`, `name`, `org/name@revision`), whose config.json then defines the model; the
            folder of a universal checkpoint of DeepSpeed; "" initializes from the seed.
        continue_training: whether to resume the training that saved the universal checkpoint in `init`, from its step
            and with its optimizer's averages.
        vocabulary: `same`: the job's tokenizer has the ids of the given weights; `transfer`: it has others, and each
            row of the embeddings begins as the mean of the rows of its pieces in the tokenizer beside the weights.
        pad_vocab: the token embedding has a multiple of so many rows while it trains, e.g. 128, which is faster on
            accelerators; 0 or 1 does not pad. Padding rows take no part in the softmax, checkpoints and exports.
    """

    preset: str = ""
    config: dict[str, Any] = {}
    init: str = ""
    continue_training: bool = False
    vocabulary: Literal["same", "transfer"] = "same"
    pad_vocab: int = 0

    def padded(self, ids: int) -> int:
        """Return a number of ids, padded to a multiple of `pad_vocab`."""
        unit = max(1, self.pad_vocab)
        return -(-ids // unit) * unit


class CheckpointConfig(_Config, frozen=True):
    """When checkpoints are saved, and which are kept. One is saved at the end of the run and on SIGTERM as well.

    Attributes:
        every_steps: number of steps between checkpoints; 0 for none.
        every_epochs: number of epochs between further checkpoints, e.g. 0.5; 0 for none.
        every_minutes: number of minutes between further checkpoints; 0 for none.
        keep_last: how many of the newest checkpoints to keep.
        keep_best: how many others to keep, those with the lowest validation loss. They are saved right after their
            validation, independent of `every_steps`.
        best: the figure that `keep_best` and `jprep export --which best` compare instead of the loss: a metric of the
            validation, such as `macro_f1`, or `metrics/NAME` of your own.
        best_is: whether its `lowest` or `highest` value is the best; `auto` is lowest for names that end in loss,
            error, rmse, mse or mae.
        mirror: a URL such as `s3://BUCKET/RUN` to which checkpoints, events and the log are copied in the background,
            and from which another machine resumes the run; "" for none.
    """

    every_steps: int = 1000
    every_epochs: float = 0.0
    every_minutes: float = 0.0
    keep_last: int = 2
    keep_best: int = 0
    best: str = "loss"
    best_is: Literal["auto", "lowest", "highest"] = "auto"
    mirror: str = ""


class ValidationConfig(_Config, frozen=True):
    """When metrics on the validation split are measured: also at the end, unless both intervals are 0.

    Attributes:
        every_steps: number of steps between validations; 0 for none.
        every_epochs: number of epochs between further validations, e.g. 0.5; 0 for none.
        batches: the number of batches; 0 is the whole split.
        patience: number of validations in a row without a better `checkpoint.best` that ends training; 0 for all steps.
        min_delta: by how much a figure must be better to count.
    """

    every_steps: int = 0
    every_epochs: float = 0.0
    batches: int = 0
    patience: int = 0
    min_delta: float = 0.0

    @property
    def enabled(self) -> bool:
        """Whether anything is validated."""
        return bool(self.every_steps or self.every_epochs)


class TrainConfig(_Config, frozen=True):
    """The `[train]` section.

    Attributes:
        task: `clm`, `mlm`, `rtd`, `classify`, `regress` or `sft`.
        model: the model.
        batch: rows in a global batch, independent of the number of devices.
        length: tokens per row; with `stages`, after the last of them, and of validation rows.
        stages: stages with rows of another length, before the steps with `length` (`clm`, `mlm`, `rtd`).
        packing: how documents become rows (`clm`, `mlm`, `rtd`; conversations of `sft` always as `best_fit`).
        document_masks: whether tokens of a document do not see the other documents of their row, positions begin anew
            with each, and the first token of a document is not predicted (`clm`, `mlm`, `rtd`).
        masking: how tokens are masked (`mlm`, `rtd`).
        z_loss: factor z of z · ln² Z, which is added to the loss of each token in training, e.g. 1e-4: it keeps Z, the
            denominator of the softmax, near 1; 0 adds nothing (`clm`, `mlm`, `sft`).
        next_sentence: whether rows are pairs of segments, and BERT also learns whether the second one follows the first
            (`mlm`).
        rtd: replaced-token detection (`rtd`).
        class_weights: how much the rows of a class count in training: `balanced` gives all classes the same sum of
            weights; or a weight for each label; empty for 1 each (`classify`).
        data: files with labelled rows (`classify`, `regress`), or with conversations (`sft`).
        validation_data: such files to validate on; empty uses a fold of labelled rows, if there are folds.
        labelled: the columns of these files.
        sft: how conversations are read and become text (`sft`).
        fold: the fold to validate on, from 0; None is 0 in a job, and each fold in turn for `jprep run`.
        steps: the number of steps; 0 if `epochs` is given.
        epochs: passes over the training split; 0 if `steps` is given.
        drop_last: whether an epoch has only complete batches, rows // `batch` steps, and leaves out the other rows,
            which are others in each epoch; otherwise a batch may span two epochs, and no row is left out.
        seed: seed of initial weights, sample order, masks and dropout.
        precision: of the computation; weights and optimizer state stay in fp32.
        optimizer: the optimizer.
        schedule: the learning rate schedule.
        checkpoint: when checkpoints are saved.
        validation: when the validation split is measured.
        hooks: your own loss, head and metrics.
        log_every: steps between two logged steps.
        trackers: trackers besides events.jsonl: names, or tables with options; an empty list for none.
        max_restarts: how often a dead or hung worker is restarted without progress before the run fails.
        silent_minutes: a worker without a sign of life for so long is taken to hang, and restarted.
        hosts: the hosts that the run's processes are started on: `slurm`, `pbs` and `grid-engine` are those of the job;
            `env` are the processes of torchrun, MPI, srun or Kubernetes; `none` is this machine; "" is `env` if such a
            launcher has set its variables, else this machine; anything else is the path of a hostfile.
        submit: what the job of a training asks for, with `--executor slurm`.
        push: uploads of the model to the Hugging Face Hub.
        samples: samples of text that are recorded at checkpoints.
        backend: backend → its own options, checked by the backend.
    """

    task: Task = "clm"
    model: ModelConfig = ModelConfig()
    batch: int = 32
    length: int = 512
    stages: list[LengthStage] = []
    packing: Packing = "stream"
    document_masks: bool = False
    masking: MaskingConfig = MaskingConfig()
    z_loss: float = 0.0
    next_sentence: bool = False
    rtd: RtdConfig = RtdConfig()
    class_weights: Literal["", "balanced"] | dict[str, float] = ""
    data: list[str] = []
    validation_data: list[str] = []
    labelled: LabelledConfig = LabelledConfig()
    sft: SftConfig = SftConfig()
    fold: int | None = None
    steps: int = 0
    epochs: float = 0.0
    drop_last: bool = False
    seed: int = 1
    precision: Precision = "fp32"
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    validation: ValidationConfig = ValidationConfig()
    hooks: HooksConfig = HooksConfig()
    log_every: int = 10
    trackers: TrackerConfigs = msgspec.field(default_factory=lambda: ["tensorboard"])
    max_restarts: int = 10
    silent_minutes: float = 30.0
    hosts: str = ""
    submit: SubmitConfig = SubmitConfig()
    push: PushConfig = PushConfig()
    samples: SamplesConfig = SamplesConfig()
    backend: dict[str, dict[str, Any]] = {}

    @property
    def objective(self) -> Task:
        """The task whose model and loss it has; see `objective_of`."""
        return objective_of(self.task)

    @property
    def has_labelled_rows(self) -> bool:
        """Whether its rows are labelled ones, with one label each; otherwise tokens have labels."""
        return bool(self.data) and self.task != "sft"

    @property
    def lengths(self) -> list[int]:
        """Tokens per row, of each stage."""
        if self.has_labelled_rows:
            return [self.labelled.length]
        return [*(stage.length for stage in self.stages), self.length]

    @property
    def longest(self) -> int:
        """Tokens in the longest row."""
        return max(self.lengths)

    def lengths_until(self, step: int) -> list[tuple[int, int, int]]:
        """Return the first step, the step after the last one and the tokens per row of each stage until a step."""
        ends = [*(min(stage.until_step, step) for stage in self.stages), step]
        return list(zip([0, *ends[:-1]], ends, self.lengths, strict=True))


class SeenSource(msgspec.Struct, frozen=True):
    """What a run sees of a source in all its steps.

    Attributes:
        name: the source.
        rows: rows from it.
        tokens: their tokens: those of complete epochs, and a share of an incomplete one.
        epochs: how often its rows are seen.
    """

    name: str
    rows: int
    tokens: int
    epochs: float


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`job.json`: everything that a worker needs to know.

    Attributes:
        jprep: the version that wrote it.
        format: the layout of the run directory, see `FORMAT`.
        name: the run's name.
        fingerprint: a hash of everything that the weights depend on; paths, the backend, and options outside of
            `computed` have no part in it.
        backend, options: the backend's name, and its own options.
        computed: those options that change the result.
        made_from: hashes of the inputs that are part of the fingerprint: tokenizer, dataset or labelled rows, given
            initial weights; empty in jobs of earlier versions.
        earlier: the fingerprints that the run had before `steps` was raised; their checkpoints belong to this job.
        train: the section, with defaults filled in.
        model: transformers' complete config as plain data.
        parameters, steps: the number of weights of the model, and of steps of the run.
        samples: rows in one epoch of the training split.
        dataset: the dataset's folder, relative to the run directory if possible; "" for labelled data.
        tokenizer: the tokenizer's folder, in the same form.
        special: the special ids that samples need.
        labels: the class names in the order of their ids; empty unless the task is `classify`.
        mix: how the sources of the dataset are mixed; None takes each row once per epoch.
        sources: what the run sees of each source, with a mixture.
        class_weights: weight of each of `labels`; empty for 1 each.
        chat: how the model of `sft` is talked to; None for other tasks.
        rows: how many labelled rows there are; None for other tasks, and in jobs of earlier versions.
        dropout_masks: 1 if the framework draws all masks of dropout, as in runs of jprep 0.1.0; 2 if jprep does.
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
    mix: MixConfig | None = None
    sources: list[SeenSource] = []
    class_weights: list[float] = []
    chat: Chat | None = None
    rows: RowCounts | None = None
    dropout_masks: int = 1

    @property
    def steps_before(self) -> int:
        """The steps that were done before the run, which begins after them; see `ModelConfig.continue_training`."""
        return int(self.made_from.get(GIVEN_STATE, {}).get("step", 0))

    def epochs(self, step: int) -> float:
        """Return the passes over the data until a step; rows of other lengths count by their tokens."""
        train = self.train
        tokens = sum((end - begin) * length for begin, end, length in train.lengths_until(step))
        return tokens * train.batch / (max(self.samples, 1) * train.lengths[-1])


def parse_train_config(section: TrainConfig | Mapping[str, Any], where: str) -> TrainConfig:
    """Parse and check a `[train]` section.

    Args:
        section: the section, raw or typed.
        where: its place, for errors.

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of range, or keys that exclude each other.
    """
    config = section if isinstance(section, TrainConfig) else parse_config(dict(section), TrainConfig, where=where)
    check_train_config(config, where)
    return with_task_features(rename_schedule(config, warn=True))


def check_train_config(config: TrainConfig, where: str) -> None:
    """Check the values of a `[train]` section.

    Raises:
        ConfigError: a value out of its range, or keys that exclude each other.
    """
    for key, least in (("batch", 1), ("length", 2), ("steps", 0), ("log_every", 1), ("max_restarts", 0)):
        if getattr(config, key) < least:
            raise ConfigError(f"train.{key} must be at least {least}", where=where, fix=f"e.g. {key} = {least}")
    _check_end(config, where)
    if config.schedule.steps and config.schedule.total:
        fix = "remove train.schedule.steps"
        raise ConfigError("given twice: steps is the former name of total", where="train.schedule.steps", fix=fix)
    _check_data(config, where)
    _check_fold(config, where)
    check_mirror_url(config.checkpoint.mirror, where)
    check_tracker_configs(config.trackers)
    check_next_sentence(config, where)
    check_feature_values(config)
    check_sft(config)
    if config.task == "rtd":
        check_rtd(config.rtd, config.masking.rate, config.model.init, where)
    check_push(config.push)
    check_samples(config.samples)


def _check_end(config: TrainConfig, where: str) -> None:
    if config.steps and config.epochs:
        fix = "remove one of them, e.g. `--set train.steps=0`"
        raise ConfigError("both steps and epochs are given", where=where, fix=fix)
    if not config.steps and not config.epochs:
        fix = "steps = 10000, or epochs = 1"
        raise ConfigError("neither steps nor epochs is given", where=where, fix=fix)


def _check_data(config: TrainConfig, where: str) -> None:
    needs = {"classify": "labelled data", "regress": "labelled data", "sft": "conversations"}.get(config.task)
    if needs and not config.data:
        raise ConfigError(f"{config.task} needs {needs}", where=where, fix='add data = ["train.jsonl"]')
    if config.data and not needs:
        fix = "remove `data`; it is for classify, regress and sft"
        raise ConfigError(f"{config.task} trains on the dataset, not on labelled data", where=where, fix=fix)


def _check_fold(config: TrainConfig, where: str) -> None:
    folds, fold = config.labelled.folds, config.fold or 0
    if fold and (not folds or config.validation_data):
        fix = "labelled.folds = 5, without validation_data"
        raise ConfigError("train.fold needs folds", where=where, fix=fix)
    if not 0 <= fold < max(1, folds):
        raise ConfigError(f"there is no fold {fold}", where=where, fix=f"train.fold = 0 to {max(1, folds) - 1}")
