"""Train a quality classifier: logistic regression on the mean weight of the n-grams of a document."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from jprep.batching import batches_of
from jprep.config import ConfigSection
from jprep.corpus.document import Document
from jprep.corpus.quality import ngrams
from jprep.corpus.quality.figures import fit_logistic, held_out_figures
from jprep.corpus.quality.model import (
    HIGHEST,
    TRAIN_AGAIN,
    WEIGHTS,
    QualityCard,
    encode_weights,
    logistic,
    mean_weights,
    read_card,
)
from jprep.corpus.quality.ngrams import NgramConfig, count_ngrams, hash_ngrams
from jprep.corpus.quality.samples import Example, Sample, SampleWriter
from jprep.corpus.signals.batch import TextBatch
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import QUALITY_MODEL
from jprep.errors import JprepError
from jprep.io.atomic import remove_tree, write_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 1
"""Increased when the same inputs give another model."""

_TEXTS = "texts"
_DOCUMENTS = 64  # documents of a step
_PARTS = ("train", "calibration", "test")
_FLOOR = 1e-10  # added to the squared gradients: what is rarely seen learns little


class QualityConfig(ConfigSection, frozen=True):
    """Options of a training.

    Attributes:
        ngrams: the features.
        max_documents: documents of each class that are used, drawn by a hash of their text.
        passes: passes over the documents.
        learning_rate: learning rate of AdaGrad.
        seed: for the choice and order of documents.
    """

    ngrams: NgramConfig = NgramConfig()
    max_documents: Annotated[int, msgspec.Meta(ge=10, le=10_000_000)] = 100_000
    passes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    learning_rate: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 4.0
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0


class TrainingInput(msgspec.Struct, frozen=True):
    """The documents of a class.

    Attributes:
        described: names and hashes of the inputs, for the fingerprint.
        read: yields the documents; called once.
        rejects: what `read` has counted as rejected, by step and reason.
    """

    described: list[dict[str, Any]]
    read: Callable[[], Iterator[Document]]
    rejects: Counter[str] = msgspec.field(default_factory=Counter)


def train(
    good: TrainingInput,
    bad: TrainingInput,
    config: QualityConfig,
    folder: Path,
    *,
    restart: bool = False,
    report: Callable[[str], None] = lambda text: None,
) -> QualityCard:
    """Train a quality classifier, or verify a finished one. An interrupted training starts from the beginning.

    Args:
        good: documents of high quality.
        bad: documents of low quality.
        config: the options.
        folder: output directory; new, empty, or with this very classifier.
        restart: discard another classifier in the output directory.
        report: receives what is being done.

    Raises:
        MismatchError: the directory holds another classifier; the message names the differences.
        ConfigError: the directory holds something else.
        JprepError: a class has too few documents.
    """
    out = OutputDirectory(folder, QUALITY_MODEL, files=(WEIGHTS,))
    made_from = plain(
        {
            "versions": {"training": VERSION, "ngrams": ngrams.VERSION},
            "config": config,
            "good": good.described,
            "bad": bad.described,
        }
    )
    with out.claim():
        if restart:
            out.restart()
        if not out.finished:
            out.resume(made_from)
            card = _train(good, bad, config, out, made_from, report)
            out.seal(card)
        card = read_card(folder)
        out.verify(made_from, card.made_from, [(WEIGHTS, card.weights_sha256)], TRAIN_AGAIN)
        out.clean()
    return card


def _train(
    good: TrainingInput,
    bad: TrainingInput,
    config: QualityConfig,
    out: OutputDirectory,
    made_from: dict[str, Any],
    report: Callable[[str], None],
) -> QualityCard:
    texts = out.state / _TEXTS
    remove_tree(texts)
    texts.mkdir(parents=True)
    report("reading the documents")
    sample = SampleWriter(texts, config.max_documents, config.seed).write(good.read(), bad.read())
    counts = _count(sample)
    learner = _Learner(config, counts["train"])
    for epoch in range(config.passes):
        report(f"pass {epoch + 1} of {config.passes}")
        for examples in _batches(sample, "train", epoch):
            learner.step(examples)
    report("calibrating")
    weights, scale = learner.rounded()
    data = encode_weights(weights)
    write_atomic(out.path / WEIGHTS, data)
    values = {part: _values(sample, part, weights, scale, config.ngrams) for part in _PARTS[1:]}
    slope, offset = fit_logistic(*values["calibration"])
    means, labels = values["test"]
    return QualityCard(
        jprep=version("jprep"),
        fingerprint=fingerprint(made_from),
        made_from=made_from,
        ngrams=config.ngrams,
        scale=scale,
        slope=slope,
        offset=offset,
        documents=counts,
        rejects={name: dict(sorted(each.rejects.items())) for name, each in (("bad", bad), ("good", good))},
        figures=held_out_figures(logistic(slope * means + offset), labels),
        weights_sha256=hashlib.sha256(data).hexdigest(),
    )


class _Learner:
    """The weights while they are trained: AdaGrad on mini-batches, the classes balanced.

    Args:
        config: the options.
        documents: number of documents for training, by class.
    """

    def __init__(self, config: QualityConfig, documents: dict[str, int]) -> None:
        total = documents["good"] + documents["bad"]
        self._balance = np.array([total / (2 * documents[name]) for name in ("bad", "good")])
        self._config = config
        self._weights = np.zeros(1 << config.ngrams.bits)
        self._squares = np.full(1 << config.ngrams.bits, _FLOOR)
        self._offset = 0.0

    def step(self, examples: Sequence[Example]) -> None:
        """Learn from some documents."""
        batch, config = _as_batch(examples), self._config.ngrams
        labels = np.array([each.good for each in examples])
        scores = logistic(mean_weights(batch, self._weights, config) + self._offset)
        errors = self._balance[labels] * (scores - labels) / len(examples)
        gradient = self._gradient(batch, errors / count_ngrams(batch.lengths, config))
        self._squares += gradient * gradient
        self._weights -= self._config.learning_rate * gradient / np.sqrt(self._squares)
        self._offset -= 0.1 * float(errors.sum())

    def _gradient(self, batch: TextBatch, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over all n-grams of their documents' errors, by bucket."""
        per_code = errors[batch.doc_of_code]
        buckets, shares = list[Any](), list[Any]()
        for block in hash_ngrams(batch.codes, batch.starts[1:], self._config.ngrams):
            own = per_code[block.start : block.start + len(block.buckets[0])]
            buckets += block.buckets
            shares += [_without(own, crossing) for crossing in block.crossing]
        found = np.bincount(np.concatenate(buckets), np.concatenate(shares), minlength=len(self._weights))
        return found.astype(np.float64, copy=False)

    def rounded(self) -> tuple[NDArray[np.int16], float]:
        """Return the weights as integers, and what one unit is."""
        scale = float(np.abs(self._weights).max() / HIGHEST) or 1.0
        return np.rint(self._weights / scale).astype(np.int16), scale


def _without(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a copy of values with zeros at some places."""
    copied = values.copy()
    copied[places] = 0
    return copied


def _as_batch(examples: Sequence[Example]) -> TextBatch:
    return TextBatch([Document("", "", "", "", each.text) for each in examples])


def _batches(sample: Sample, part: str, epoch: int) -> Iterator[list[Example]]:
    found = (each for examples in sample.files(epoch) for each in examples if each.part == part)
    return batches_of(found, _DOCUMENTS, lambda _: 1)


def _values(
    sample: Sample, part: str, weights: NDArray[np.int16], scale: float, config: NgramConfig
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the means of the documents of a part, and their labels."""
    means, labels = list[Any](), list[int]()
    for examples in _batches(sample, part, 0):
        means.append(scale * mean_weights(_as_batch(examples), weights, config))
        labels += [each.good for each in examples]
    return np.concatenate(means), np.array(labels)


def _count(sample: Sample) -> dict[str, dict[str, int]]:
    """Return the number of documents in each part, by class.

    Raises:
        JprepError: a class has none in a part.
    """
    counts = {part: {"bad": 0, "good": 0} for part in _PARTS}
    for examples in sample.files(0):
        for each in examples:
            counts[each.part]["good" if each.good else "bad"] += 1
    for part, found in counts.items():
        for name, number in found.items():
            if not number:
                fix = f"give --{name} more documents: one in 20 is held out for calibration, and one for the test"
                raise JprepError(f"the {name} inputs have no document for the part `{part}`", fix=fix)
    return counts
