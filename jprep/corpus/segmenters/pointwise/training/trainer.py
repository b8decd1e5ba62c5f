"""Train a model from labelled sentences."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from jprep.corpus.segmenters.pointwise.features import VERSION as FEATURES_VERSION
from jprep.corpus.segmenters.pointwise.features import FeatureConfig
from jprep.corpus.segmenters.pointwise.model_file import Model, ModelCard
from jprep.corpus.segmenters.pointwise.training.examples import Examples
from jprep.corpus.segmenters.pointwise.training.learner import Learner, LearnerConfig
from jprep.errors import InputError
from jprep.io.os_errors import translate_os_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
"""Increased when the same sentences give another model."""

_SNAPSHOTS = 8  # how often per pass the weights enter the average


class TrainingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a training.

    Attributes:
        passes: how often each sentence is seen.
        averaged_passes: how many of the last passes enter the average of the weights.
        seed: seed of the order of the batches.
        features: sizes of the tables.
        learner: options of the learner.
    """

    passes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4
    averaged_passes: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
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
        except OSError as error:
            raise translate_os_error(error, folder, "write") from error
        if examples.length <= examples.sentences:
            raise InputError("no sentence to train on", fix="give files with words, or text and a segmenter")
        learner = Learner(config.features, words, config.learner)
        for epoch in range(config.passes):
            _run_pass(learner, examples, config, epoch, report)
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
        return Model(card, learner.rounded())


def _run_pass(
    learner: Learner, examples: Examples, config: TrainingConfig, epoch: int, report: Callable[[str], None]
) -> None:
    report(f"pass {epoch + 1} of {config.passes}")
    total = max(1, examples.batch_count)
    averaging = epoch >= config.passes - config.averaged_passes
    wrong = counted = 0.0
    for number, batch in enumerate(examples.batches(epoch, config.seed)):
        missed, seen = learner.step(batch)
        wrong, counted = wrong + missed, counted + seen
        if averaging and (number + 1) * _SNAPSHOTS // total > number * _SNAPSHOTS // total:
            learner.add_to_average()
    report(f"pass {epoch + 1} of {config.passes}: {wrong / max(counted, 1):.3%} of {counted:,.0f} boundaries wrong")
