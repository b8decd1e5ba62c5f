"""What makes a checkpoint the best: the validation loss, or another figure of the validation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.job.config import CheckpointConfig, TrainConfig, ValidationConfig

NO_IMPROVEMENT = "no improvement; see train.validation.patience"
"""Why a training ended before its last step."""

LOSS = "loss"
WHERE = "train.checkpoint.best"

_LOW = ("loss", "error", "rmse", "mse", "mae")
_OF_TASK = {
    "classify": ("accuracy", "macro_f1", "mcc"),
    "regress": ("rmse", "pearson", "spearman"),
    "rtd": (
        *("generator_loss", "discriminator_loss", "generator_accuracy", "discriminator_accuracy"),
        *("replaced", "precision", "recall"),
    ),
}
_OF_PAIRS = ("next_sentence_loss", "next_sentence_accuracy")
_PER_LABEL, _HOOK = "f1/", "metrics/"


class BestFigure(NamedTuple):
    """What checkpoints are compared by.

    Attributes:
        name: the name of a figure of the validation.
        highest: whether the highest value is the best one.
    """

    name: str = LOSS
    highest: bool = False

    def sort_key(self, loss: float | None, figures: Mapping[str, float]) -> float | None:
        """Return a number that is lowest for the best checkpoint; None if the figure was not measured or is undefined.

        Args:
            loss: the validation loss; None if it was not measured.
            figures: other figures of the validation.
        """
        value = loss if self.name == LOSS else figures.get(self.name)
        if value is None or not math.isfinite(value):
            return None
        return -value if self.highest else value

    def check_measured(self, figures: Mapping[str, float]) -> None:
        """Check that a validation measured the figure.

        Raises:
            ConfigError: it did not.
        """
        if self.name != LOSS and self.name not in figures:
            what = f"the validation does not measure {self.name!r}"
            raise ConfigError(what, where=WHERE, fix=suggest_name(self.name, [LOSS, *figures]))

    def kept(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Return what a checkpoint records besides its loss: this figure, if it is another one and defined."""
        if self.name == LOSS or self.sort_key(None, figures) is None:
            return {}
        return {self.name: float(figures[self.name])}


LOWEST_LOSS = BestFigure()


def best_figure(section: CheckpointConfig) -> BestFigure:
    """Return what the checkpoints of a job are compared by."""
    lowest = section.best.endswith(_LOW) if section.best_is == "auto" else section.best_is == "lowest"
    return BestFigure(section.best, not lowest)


def is_best_kept(train: TrainConfig, step: int, steps: int) -> bool:
    """Return whether a finished training ended early and keeps its best checkpoint, which is the one to export.

    Args:
        train: the job's section.
        step: the step that it ended at.
        steps: the steps of the job.
    """
    return step < steps and train.checkpoint.keep_best > 0


def early_end_reason(train: TrainConfig, measured: Mapping[int, Mapping[str, float]]) -> str:
    """Return why a training ended early: that its figure did not improve, with its best value and step.

    Args:
        train: the job's section.
        measured: the figures of each validation by step.
    """
    best, delta = best_figure(train.checkpoint), train.validation.min_delta
    what = f"no improvement{f' by more than {delta:g}' if delta else ''} in validation"
    keys = ((best.sort_key(figures.get(LOSS), figures), step) for step, figures in measured.items())
    if not (known := [(key, step) for key, step in keys if key is not None]):
        return f"{what}; {best.name} was never measured"
    step = min(known)[1]
    return f"{what}; the best {best.name} was {measured[step][best.name]:.4f} at step {step:,}"


class Patience:
    """Decides when training has not improved for too long.

    Args:
        section: when the validation split is measured.
        figure: what is compared.

    Attributes:
        exhausted: whether training ends.
    """

    def __init__(self, section: ValidationConfig, figure: BestFigure) -> None:
        self._section, self._figure = section, figure
        self._best, self._waited = math.inf, 0

    @property
    def exhausted(self) -> bool:
        """Whether training ends."""
        return 0 < self._section.patience <= self._waited

    def add(self, figures: Mapping[str, float]) -> None:
        """Add a validation's figures, `loss` among them."""
        key = self._figure.sort_key(figures.get(LOSS), figures)
        better = key is not None and key < self._best - self._section.min_delta
        self._waited = 0 if better else self._waited + 1
        if better and key is not None:
            self._best = key


def check_best(train: TrainConfig) -> None:
    """Check that the validation of a job can measure what its checkpoints are compared by.

    Raises:
        ConfigError: it cannot. Of names that depend on labels and on a user's metrics, the first validation decides.
    """
    _check_patience(train)
    name = train.checkpoint.best
    measured = (LOSS, *_OF_TASK.get(train.task, ()), *(_OF_PAIRS if train.next_sentence else ()))
    if name.startswith(_HOOK):
        if not train.hooks.metrics:
            what = f"{name!r} is a metric of your own, and train.hooks.metrics names none"
            raise ConfigError(what, where=WHERE, fix="name the function in train.hooks.metrics")
    elif name not in measured and not (train.task == "classify" and name.startswith(_PER_LABEL)):
        what = f"the validation of the task {train.task} does not measure {name!r}"
        raise ConfigError(what, where=WHERE, fix=suggest_name(name, measured))


def _check_patience(train: TrainConfig) -> None:
    if train.validation.patience and not train.validation.enabled:
        fix = "validation.every_steps = 500, or remove patience"
        raise ConfigError("patience needs validations", where="train.validation.patience", fix=fix)
