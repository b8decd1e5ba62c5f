"""The signal `perplexity`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.model_file import model_path
from jprep.corpus.signals.perplexity.model import PerplexityModel, read_model
from jprep.corpus.step import Signal, StepConfig
from jprep.errors import ConfigError
from jprep.io.hashing import cached_sha256

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WHERE = "signal 'perplexity'"


class PerplexitySignal(Signal):
    """How badly a character n-gram model predicts a text.

    Columns: `perplexity_bits`, bits per character: the base-2 logarithm of the perplexity. It does not apply to an
    empty text.
    """

    name = "perplexity"
    version = 1
    local = frozenset({"model"})

    class Config(StepConfig, frozen=True):
        """Options of the signal `perplexity`.

        Attributes:
            model: path of a model made by `python -m jprep.corpus.signals.perplexity.training`.
        """

        model: str = ""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        if not self.config.model:
            fix = '{ use = "perplexity", model = "perplexity.npz" }'
            raise ConfigError("the signal needs a model", where=_WHERE, fix=fix)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("perplexity_bits",)

    @cached_property
    def _path(self) -> Path:
        return model_path(self.config.model, _WHERE)

    @cached_property
    def _model(self) -> PerplexityModel:
        return read_model(self._path)

    def provenance(self) -> dict[str, str]:
        """Return the hash of the model."""
        return {"model": cached_sha256(self._path)}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        return {"perplexity_bits": self._model.bits_per_character(batch)}
