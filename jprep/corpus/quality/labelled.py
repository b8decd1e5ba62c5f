"""Use the labels of a language model as examples for a quality classifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jprep.corpus.document import Document
from jprep.corpus.quality.judging.labels import read_card, read_labels
from jprep.corpus.quality.training import TrainingInput


def add_labels(
    inputs: tuple[TrainingInput, TrainingInput], folder: Path, threshold: float
) -> tuple[TrainingInput, TrainingInput]:
    """Add the documents of labels to the good and the bad documents; those without a score are left out.

    Args:
        inputs: the good and the bad documents.
        folder: directory of `jprep quality judge`.
        threshold: the lowest score of a good document.

    Raises:
        ConfigError: there are no finished labels.
        DamagedError: they are damaged.
    """
    about = {"labels": read_card(folder).sha256, "threshold": threshold}
    good, bad = inputs
    return _with_labels(good, folder, threshold, about, good=True), _with_labels(
        bad, folder, threshold, about, good=False
    )


def _with_labels(
    side: TrainingInput, folder: Path, threshold: float, about: dict[str, object], *, good: bool
) -> TrainingInput:
    def read() -> Iterator[Document]:
        yield from side.read()
        for label in read_labels(folder):
            if label.score is not None and (label.score >= threshold) == good:
                yield Document(label.id, "", "", "", label.text)

    return TrainingInput([*side.described, about], read, side.rejects)
