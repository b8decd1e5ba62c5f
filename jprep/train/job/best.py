"""What makes a checkpoint the best: the validation loss, or another figure of the validation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.job.config import CheckpointConfig, TrainConfig

LOSS = "loss"
WHERE = "train.checkpoint.best"

_LOW = ("loss", "error", "rmse", "mse", "mae")
_OF_LABELS = {"classify": ("accuracy", "macro_f1", "mcc"), "regress": ("rmse", "pearson", "spearman")}
_PER_LABEL, _HOOK = "f1/", "metrics/"


class BestFigure(NamedTuple):
    """What checkpoints are compared by.

    Attributes:
        name: the name of a figure of the validation.
        highest: whether the highest value is the best one.
    """

    name: str = LOSS
    highest: bool = False

    def rank(self, loss: float | None, figures: Mapping[str, float]) -> float | None:
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
        return (
            {self.name: float(figures[self.name])} if self.name != LOSS and self.rank(None, figures) is not None else {}
        )


LOWEST_LOSS = BestFigure()


def best_figure(section: CheckpointConfig) -> BestFigure:
    """Return what the checkpoints of a job are compared by."""
    lowest = section.best.endswith(_LOW) if section.best_is == "auto" else section.best_is == "lowest"
    return BestFigure(section.best, not lowest)


def check_best(train: TrainConfig) -> None:
    """Check that the validation of a job can measure what its checkpoints are compared by.

    Raises:
        ConfigError: it cannot. Of names that depend on labels and on a user's metrics, the first validation decides.
    """
    name, labelled = train.checkpoint.best, _OF_LABELS.get(train.task)
    if name.startswith(_HOOK):
        if not train.hooks.metrics:
            what = f"{name!r} is a metric of your own, and train.hooks.metrics names none"
            raise ConfigError(what, where=WHERE, fix="name the function in train.hooks.metrics")
    elif labelled and name != LOSS and name not in labelled and not name.startswith(_PER_LABEL):
        what = f"the validation of the task {train.task} does not measure {name!r}"
        raise ConfigError(what, where=WHERE, fix=suggest_name(name, [LOSS, *labelled]))
