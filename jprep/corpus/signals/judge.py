"""The signal of labels that `jprep quality judge` has collected."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from jprep.corpus.quality.judging.labels import document_hash, read_card, read_labels
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Signal, StepConfig
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class JudgeSignal(Signal):
    """The score that a language model gave a document.

    Column: `NAME_score`, by default `judge_score`; it does not apply to a document without a label. Documents are found
    by the hash of their text, so the labels must be those of the same text.
    """

    name = "judge"
    version = 1
    local = frozenset({"labels"})  # the hash of the labels is recorded

    class Config(StepConfig, frozen=True):
        """Options of the signal `judge`.

        Attributes:
            labels: directory that `jprep quality judge` wrote.
            name: first part of the column's name.
        """

        labels: str = ""
        name: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,63}$")] = "judge"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        if not self.config.labels:
            fix = '{ use = "judge", labels = "DIR" }, with the directory that `jprep quality judge` wrote'
            raise ConfigError("the signal needs labels", where="signal 'judge'", fix=fix)

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of what is measured."""
        return (f"{self.config.name}_score",)

    def provenance(self) -> dict[str, str]:
        """Return the hash of the labels."""
        return {"labels": read_card(self._folder).sha256}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return the scores of all documents of a batch."""
        found = [self._scores.get(document_hash(text), np.nan) for text in batch.texts]
        return {self.columns[0]: np.array(found, np.float64)}

    @property
    def _folder(self) -> Path:
        return Path(self.config.labels).expanduser()

    @cached_property
    def _scores(self) -> dict[str, float]:
        labels = read_labels(self._folder)
        return {each.hash: each.score for each in labels if each.score is not None}
