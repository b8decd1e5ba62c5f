"""Train a model from labelled sentences."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from jprep.corpus.segmenters.pointwise.features import VERSION as FEATURES_VERSION
from jprep.corpus.segmenters.pointwise.features import FeatureConfig
from jprep.corpus.segmenters.pointwise.model_file import Model, ModelCard
from jprep.corpus.segmenters.pointwise.training.examples import HALVES, Examples
from jprep.corpus.segmenters.pointwise.training.learner import Learner, LearnerConfig
from jprep.corpus.segmenters.pointwise.training.passes import enters_average
from jprep.corpus.segmenters.pointwise.training.second_learner import DoubtFile, learn_second
from jprep.errors import InputError
from jprep.io.os_errors import translate_os_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jprep.corpus.segmenters.pointwise.weights import Weights

VERSION = 2
"""Increased when the same sentences give another model."""


class TrainingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a training.

    Attributes:
        passes: how often each sentence is seen.
        averaged_passes: how many of the last passes enter the average of the weights.
        second_passes: how often each boundary in doubt is seen; see `second_look`.
        seed: seed of the order of the batches.
        features: sizes of the tables.
        learner: options of the learner.
    """

    passes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4
    averaged_passes: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    second_passes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0
    features: FeatureConfig = FeatureConfig()
    learner: LearnerConfig = LearnerConfig()


def train(
    sentences: Iterable[list[str]],
    words: NDArray[np.uint8],
    config: TrainingConfig,
    *,
    described: dict[str, Any] | None = None,
    license_name: str = "",
    note: str = "",
    report: Callable[[str], None] = lambda text: None,
) -> Model:
    """Train a model. The sentences are kept in temporary files; memory depends on the sizes of the tables only.

    Args:
        sentences: the words of each sentence; read once.
        words: the dictionary, see `make_dictionary`.
        config: the options.
        described: names and hashes of the inputs, for the card.
        license_name: the licence of the model, for the card.
        note: what else the card says.
        report: receives what is being done.

    Raises:
        InputError: there are no sentences of two or more characters.
        MachineError: the disk is full.
    """
    with tempfile.TemporaryDirectory(prefix="jprep-segmenter-") as folder:
        report("reading the sentences")
        try:
            examples = Examples(Path(folder), config.learner.batch).write(sentences)
            if examples.length <= examples.sentences:
                raise InputError("no sentence to train on", fix="give files with words, or text and a segmenter")
            second = _learn_second_look(Path(folder), examples, words, config, report)
        except OSError as error:
            raise translate_os_error(error, folder, "write") from error
        report("a model of all sentences")
        weights = msgspec.structs.replace(_learn_first(examples, HALVES, words, config, report), second=second)
        card = ModelCard(
            jprep=version("jprep"),
            made_from={
                "versions": {"training": VERSION, "features": FEATURES_VERSION},
                "config": msgspec.to_builtins(config),
            }
            | (described or {}),
            sentences=examples.sentences,
            characters=examples.length,
            license=license_name,
            note=note,
        )
        return Model(card, weights)


def _learn_second_look(
    folder: Path, examples: Examples, words: NDArray[np.uint8], config: TrainingConfig, report: Callable[[str], None]
) -> NDArray[np.int8]:
    """Learn the second look from what a model of each half says about the other half."""
    doubts = DoubtFile(folder / "doubts")
    for half in HALVES:
        report(f"a model of half {half + 1} of the sentences")
        first = _learn_first(examples, [half], words, config, report)
        for stretch in examples.stretches(1 - half):
            doubts.add(stretch, first)
    records = doubts.records()
    report(f"second look: {len(records):,} boundaries in doubt")
    bits, rate = config.features.second, config.learner.second_rate
    return learn_second(records, bits, passes=config.second_passes, rate=rate, seed=config.seed)


def _learn_first(
    examples: Examples,
    halves: Sequence[int],
    words: NDArray[np.uint8],
    config: TrainingConfig,
    report: Callable[[str], None],
) -> Weights:
    """Return the weights of the first sums, learnt from some halves."""
    learner = Learner(config.features, words, config.learner)
    total = examples.batch_count(halves)
    for epoch in range(config.passes):
        report(f"pass {epoch + 1} of {config.passes}")
        averaging = epoch >= config.passes - config.averaged_passes
        wrong = counted = 0.0
        for done, batch in enumerate(examples.batches(epoch, config.seed, halves), 1):
            missed, seen = learner.step(batch)
            wrong, counted = wrong + missed, counted + seen
            if averaging and enters_average(done, total):
                learner.add_to_average()
        share = wrong / max(counted, 1)
        report(f"pass {epoch + 1} of {config.passes}: {share:.3%} of {counted:,.0f} boundaries wrong")
    return learner.weights()
