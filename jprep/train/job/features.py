"""Keys of `[train]` that a backend must say it follows: one that does not know them would train something else."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from jprep.dataset.sampling.config import check_length_stages
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from jprep.train.job.config import TrainConfig

FEATURES = ("document_masks", "z_loss", "stages", "optimizer.kind", "optimizer.layer_decay", "class_weights")
"""These keys, without `train.`."""

_WITHOUT_DOCUMENTS = ("deberta-v2",)


def check_features(train: TrainConfig, backend: str, supported: tuple[str, ...]) -> None:
    """Check that a backend follows the keys that a section uses.

    Args:
        train: the section.
        backend: the backend's name.
        supported: those of `FEATURES` that it follows.

    Raises:
        ConfigError: it does not follow one of them.
    """
    defaults = type(train)()
    for name in FEATURES:
        value = attrgetter(name)
        if name not in supported and value(train) != value(defaults):
            fix = f"remove {name.rpartition('.')[2]}, or use another backend, e.g. --backend torch"
            raise ConfigError(f"the backend {backend} does not support {name}", where=f"train.{name}", fix=fix)


def check_task(task: str, backend: str, supported: Collection[str]) -> None:
    """Check that a backend trains a task.

    Raises:
        ConfigError: it does not.
    """
    if task not in supported:
        fix = "use another backend, e.g. --backend torch"
        raise ConfigError(f"the backend {backend} does not train the task {task!r}", where="train.task", fix=fix)


def check_documents(train: TrainConfig, model_type: str) -> None:
    """Check that the documents of a row can be told apart in a model.

    Raises:
        ConfigError: they cannot.
    """
    from jprep.train.models.presets import FAMILIES  # which imports the types of sections

    plugin = FAMILIES[model_type].plugin
    if plugin and train.document_masks and "document_masks" not in plugin.features:
        what = f"models of the family {model_type!r} do not keep the documents of a row apart"
        fix = "use another model" if train.task == "sft" else "remove document_masks, or use another model"
        raise ConfigError(what, where="train.document_masks", fix=fix)
    if train.document_masks and model_type in _WITHOUT_DOCUMENTS:
        what = f"transformers' class of {model_type} takes no mask of documents"
        fix = "remove document_masks, or use a model of another type, e.g. modernbert"
        raise ConfigError(what, where="train.document_masks", fix=fix)


def check_feature_values(train: TrainConfig) -> None:
    """Check the values of these keys, and of `stages`.

    Raises:
        ConfigError: a value is out of its range, or has no use in combination with others.
    """
    _check_document_masks(train)
    _check_stages(train)
    _check_z_loss(train)
    _check_layer_decay(train)
    _check_class_weights(train)


def _check_document_masks(train: TrainConfig) -> None:
    if not train.document_masks:
        return
    reason = "its rows have one text each" if train.has_labelled_rows or train.packing == "line" else ""
    reason = "its rows are sentence pairs" if train.next_sentence else reason
    if reason:
        what = f"document_masks has no use here: {reason}"
        raise ConfigError(what, where="train.document_masks", fix="remove document_masks")


def _check_stages(train: TrainConfig) -> None:
    where = "train.stages"
    if not train.stages:
        return
    if train.data:
        fix = "remove stages" + ("; labelled.buckets fit rows to their texts" if train.has_labelled_rows else "")
        rows = "labelled rows" if train.has_labelled_rows else "rows of conversations"
        raise ConfigError(f"{rows} have no stages", where=where, fix=fix)
    if train.epochs or train.checkpoint.every_epochs or train.validation.every_epochs:
        fix = "give steps, and every_steps in place of every_epochs"
        raise ConfigError("epochs differ between stages, so they cannot be counted", where=where, fix=fix)
    check_length_stages(train.stages, where)
    if train.steps and train.stages[-1].until_step >= train.steps:
        what = f"the last stage ends at step {train.stages[-1].until_step:,}, and the run has {train.steps:,} steps"
        raise ConfigError(what, where=where, fix=f"until_step below {train.steps}, or more steps")


def _check_z_loss(train: TrainConfig) -> None:
    where = "train.z_loss"
    if not 0 <= train.z_loss < float("inf"):
        raise ConfigError("z_loss must be a number from 0", where=where, fix="e.g. z_loss = 1e-4")
    if train.z_loss and (train.objective not in ("clm", "mlm") or train.hooks.loss):
        what = "a loss of your own" if train.hooks.loss else f"the task {train.task}"
        raise ConfigError(f"z_loss cannot be combined with {what}", where=where, fix="remove z_loss")


def _check_layer_decay(train: TrainConfig) -> None:
    if not 0 < train.optimizer.layer_decay <= 1:
        where = "train.optimizer.layer_decay"
        raise ConfigError("layer_decay must be above 0 and at most 1", where=where, fix="e.g. layer_decay = 0.9")


def _check_class_weights(train: TrainConfig) -> None:
    where, weights = "train.class_weights", train.class_weights
    if weights and (train.task != "classify" or train.hooks.loss):
        what = "a loss of your own" if train.hooks.loss else f"the task {train.task}"
        raise ConfigError(f"class_weights cannot be combined with {what}", where=where, fix="remove class_weights")
    if isinstance(weights, dict) and not all(0 <= weight < float("inf") for weight in weights.values()):
        raise ConfigError("a weight of a class must be a number from 0", where=where, fix="e.g. { spam = 2.5 }")


def check_next_sentence(config: TrainConfig, where: str) -> None:
    """Check what sentence pairs exclude.

    Raises:
        ConfigError: another task, or a packing.
    """
    if not config.next_sentence:
        return
    if config.task != "mlm":
        fix = 'set task = "mlm", or remove next_sentence'
        raise ConfigError(f"train.next_sentence is for the task mlm, not {config.task}", where=where, fix=fix)
    if config.packing != "stream":
        what = (
            f"train.packing = {config.packing!r} cannot be combined with next_sentence, whose rows are sentence pairs"
        )
        raise ConfigError(what, where=where, fix="remove packing, or next_sentence")


def check_sft(train: TrainConfig) -> None:
    """Check what instruction tuning excludes.

    Raises:
        ConfigError: a packing or folds that conversations do not have, or columns that do not fit each other.
    """
    if train.task != "sft":
        return
    if train.packing not in ("stream", "best_fit"):  # the first is the default
        what = f"conversations are packed as best_fit, and packing is {train.packing}"
        raise ConfigError(what, where="train.packing", fix="remove packing")
    if train.labelled.folds:
        fix = "remove labelled; validation_data names conversations to validate on"
        raise ConfigError("conversations have no folds", where="train.labelled.folds", fix=fix)
    train.sft.check()


def with_task_features(train: TrainConfig) -> TrainConfig:
    """Return a section with what its task implies: conversations are put together, and do not see each other.

    An empty table of class weights is none.
    """
    train = msgspec.structs.replace(train, class_weights=train.class_weights or "")
    if train.task != "sft":
        return train
    return msgspec.structs.replace(train, packing="best_fit", document_masks=True)
