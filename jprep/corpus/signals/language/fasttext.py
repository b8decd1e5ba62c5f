"""The signal `fasttext`: a model in fastText's format, of languages or of anything else that has labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.language.fasttext_file import read_labels
from jprep.corpus.signals.model_file import model_path
from jprep.corpus.step import Count, Signal, StepConfig
from jprep.errors import ConfigError, InputError
from jprep.io.hashing import cached_sha256
from jprep.libraries import import_library, installed_version

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHERE = "signal 'fasttext'"
_PREFIX = "__label__"


class FastTextSignal(Signal):
    """The probabilities of labels by a model in fastText's format (`.bin` or `.ftz`) that the user names.

    Columns: `fasttext_LABEL_score` for each of `labels`, from 0 to 1. They do not apply to a text of white space.
    """

    name = "fasttext"
    version = 1
    local = frozenset({"model"})

    class Config(StepConfig, frozen=True):
        """Options of the signal `fasttext`.

        Attributes:
            model: path of the model.
            labels: labels to keep, with or without `__label__`.
            max_chars: characters that are looked at, from the beginning of a text; 0 is all.
        """

        model: str = ""
        labels: tuple[str, ...] = ()
        max_chars: Count = 2000

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        if not self.config.model or not self.config.labels:
            fix = '{ use = "fasttext", model = "lid.176.bin", labels = ["ja"] }'
            raise ConfigError("the signal needs a model and labels", where=_WHERE, fix=fix)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return tuple(f"fasttext_{label}_score" for label in self._labels)

    @property
    def _labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(label.removeprefix(_PREFIX) for label in self.config.labels))

    @cached_property
    def _path(self) -> Path:
        return model_path(self.config.model, _WHERE)

    def provenance(self) -> dict[str, str]:
        """Return the hash of the model, and the version of the library."""
        _import_fasttext()
        return {"model": cached_sha256(self._path), "fasttext-predict": installed_version("fasttext-predict")}

    @cached_property
    def _predict(self) -> Any:
        module = _import_fasttext()
        known = read_labels(self._path)
        if unknown := [label for label in self._labels if _PREFIX + label not in known]:
            fix = f"one of its {len(known)} labels, e.g. {', '.join(sorted(known)[:5])}"
            raise ConfigError(f"the model has no label {unknown[0]!r}", where=f"{_WHERE}, key `labels`", fix=fix)
        try:
            # `predict` of Facebook's own package fails with numpy 2; what it calls works in every package.
            return module.load_model(str(self._path)).f.predict
        except (ValueError, RuntimeError, MemoryError) as error:
            fix = "a supervised model, as fastText writes it"
            raise InputError(f"{self._path}: {error}", where=_WHERE, fix=fix) from error

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        scores = np.array([self._score(text) for text in batch.texts]).reshape(-1, len(self._labels))
        return dict(zip(self.columns, scores.T, strict=True))

    def _score(self, text: str) -> list[float]:
        line = " ".join(text[: self.config.max_chars or None].split())
        if not line:
            return [np.nan] * len(self._labels)
        encodable = line.encode("utf-8", "replace").decode()
        found = {label: score for score, label in self._predict(encodable + "\n", -1, 0.0, "strict")}
        return [min(found.get(_PREFIX + label, 0.0), 1.0) for label in self._labels]


def _import_fasttext() -> Any:
    return import_library("fasttext", "models in fastText's format need its runtime", "'jprep[fasttext]'", _WHERE)
