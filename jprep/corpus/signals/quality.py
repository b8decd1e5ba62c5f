"""The signal of a quality classifier that `jprep quality train` has trained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from jprep.corpus.quality.model import QualityModel, load_model
from jprep.corpus.quality.ngrams import VERSION
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Signal, StepConfig
from jprep.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class QualitySignal(Signal):
    """The score of a quality classifier, from 0 (bad) to 1 (good).

    Column: `NAME_score`, by default `quality_score`; it does not apply to an empty text.
    """

    name = "quality"
    version = VERSION
    local = frozenset({"model"})  # the hash of its files is recorded

    class Config(StepConfig, frozen=True):
        """Options of the signal `quality`.

        Attributes:
            model: directory that `jprep quality train` wrote.
            name: first part of the column's name; several classifiers need different ones.
        """

        model: str = ""
        name: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,63}$")] = "quality"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        if not self.config.model:
            fix = '{ use = "quality", model = "DIR" }, with the directory that `jprep quality train` wrote'
            raise ConfigError("the signal needs a model", where="signal 'quality'", fix=fix)

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of what is measured."""
        return (f"{self.config.name}_score",)

    def provenance(self) -> dict[str, str]:
        """Return what identifies the classifier: the hash of its weights, and how they become scores.

        Raises:
            ConfigError: there is no finished classifier.
            DamagedError: it is damaged.
        """
        card = self._model.card
        return {"weights": card.weights_sha256, "calibration": f"{card.scale!r} {card.slope!r} {card.offset!r}"}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return the scores of all documents of a batch."""
        return {self.columns[0]: self._model.score(batch)}

    @cached_property
    def _model(self) -> QualityModel:
        return load_model(Path(self.config.model).expanduser())
