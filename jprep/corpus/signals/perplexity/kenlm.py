"""The signal `kenlm`: perplexity by a model that KenLM reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.model_file import model_path
from jprep.corpus.step import Signal, StepConfig
from jprep.errors import ConfigError, InputError
from jprep.io.hashing import cached_sha256
from jprep.libraries import import_library, installed_version

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHERE = "signal 'kenlm'"
_BITS = 3.321928094887362  # base-2 logarithm of 10


class KenlmSignal(Signal):
    """How badly a model in KenLM's format (`.arpa` or binary) that the user names predicts a text.

    Columns: `kenlm_bits`, bits per token, line ends being tokens: the base-2 logarithm of the perplexity. It does not
    apply to a text of white space.
    """

    name = "kenlm"
    version = 1
    local = frozenset({"model"})

    class Config(StepConfig, frozen=True):
        """Options of the signal `kenlm`.

        Attributes:
            model: path of the model.
            tokens: what the model was trained on: single characters, or what stands between spaces.
        """

        model: str = ""
        tokens: Literal["characters", "spaces"] = "characters"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        if not self.config.model:
            raise ConfigError("the signal needs a model", where=_WHERE, fix='{ use = "kenlm", model = "ja.bin" }')

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("kenlm_bits",)

    @cached_property
    def _path(self) -> Path:
        return model_path(self.config.model, _WHERE)

    @cached_property
    def _model(self) -> Any:
        try:
            return _import_kenlm().Model(str(self._path))
        except (OSError, RuntimeError) as error:
            what = f"{self._path}: {str(error).splitlines()[0]}"
            raise InputError(what, where=_WHERE, fix="a model that KenLM wrote") from error

    def provenance(self) -> dict[str, str]:
        """Return the hash of the model, and the version of the library."""
        _import_kenlm()
        return {"model": cached_sha256(self._path), "kenlm": installed_version("kenlm")}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        return {"kenlm_bits": np.array([self._bits(text) for text in batch.texts], np.float64)}

    def _bits(self, text: str) -> float:
        lines = [tokens for line in text.split("\n") if (tokens := self._tokens(line))]
        if not lines:
            return np.nan
        score: float = sum(self._model.score(" ".join(tokens)) for tokens in lines)
        return -score * _BITS / sum(len(tokens) + 1 for tokens in lines)

    def _tokens(self, line: str) -> list[str]:
        words = line.encode("utf-8", "replace").decode().split()
        return [char for word in words for char in word] if self.config.tokens == "characters" else words


def _import_kenlm() -> Any:
    return import_library("kenlm", "models of KenLM need its library", "'jprep[kenlm]'", _WHERE)
