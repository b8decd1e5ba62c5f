"""Prepare a comparison's data: read the sources, hold texts out, and build each arm's dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jprep.compare.arms import RecipeArm, source_origin
from jprep.compare.data.building import ArmData, build_arm
from jprep.compare.data.held_out import (
    HeldOutText,
    common_sources,
    held_out_source,
    read_held_out,
    select_held_out,
)
from jprep.compare.data.sources import read_source, write_lines, write_training_texts
from jprep.compare.layout import HELD_OUT, WORK
from jprep.compare.options import CompareOptions
from jprep.compare.planning import sample_share
from jprep.corpus.api import Corpus
from jprep.corpus.config import Source
from jprep.engine.fingerprint import fingerprint
from jprep.engine.runner import Executor, ProgressReporter


class Preparation(NamedTuple):
    """The data of a comparison.

    Attributes:
        share: share of the raw documents that arms train on.
        held_out: the held-out texts.
        data: each arm's data; equal arms have equal data.
        distinct: indexes of the arms with different data.
    """

    share: float
    held_out: list[HeldOutText]
    data: list[ArmData]
    distinct: list[int]


def prepare(
    arms: Sequence[RecipeArm],
    folder: Path,
    options: CompareOptions,
    share: float | None,
    executor: Executor,
    progress: ProgressReporter,
    stage: Callable[[str], None],
) -> Preparation:
    """Prepare the data, or verify that it is prepared.

    Args:
        arms: the arms.
        folder: output directory of the comparison.
        options: the options.
        share: share of the raw documents to train on, if it is decided.
        executor: where tasks run.
        progress: progress callbacks.
        stage: called with what is done.

    Raises:
        JprepError: a step failed; the same call resumes.
    """
    work = folder / WORK
    raw: dict[str, Corpus] = {}
    for arm in arms:
        for source in arm.corpus.sources:
            if (key := _key(source)) not in raw:
                stage(f"reading {source.name}")
                raw[key] = read_source(work, source, executor, progress)
    held_out = _held_out(arms, raw, options, work, executor, progress)
    write_lines(folder / HELD_OUT, held_out)
    sizes = [sum(raw[_key(source)].manifest.totals["characters"] for source in arm.corpus.sources) for arm in arms]
    share = sample_share(options, min(sizes)) if share is None else share
    marks = {item.document for item in held_out}
    texts = _TrainingTexts(work / "texts", raw, marks, share)
    data = []
    for arm in arms:
        stage(f"building corpus, tokenizer and dataset of {arm.name}")
        data.append(build_arm(arm, work, texts.path, share, executor, progress))
    keys = [each.key for each in data]
    return Preparation(share, held_out, data, [number for number, key in enumerate(keys) if keys.index(key) == number])


def _key(source: Source) -> str:
    return fingerprint(source_origin(source))[:16]


def _held_out(
    arms: Sequence[RecipeArm],
    raw: dict[str, Corpus],
    options: CompareOptions,
    work: Path,
    executor: Executor,
    progress: ProgressReporter,
) -> list[HeldOutText]:
    if options.held_out:
        files = [(path.name, held_out_source(path)) for path in options.held_out]
        return read_held_out((name, read_source(work, source, executor, progress)) for name, source in files)
    return select_held_out((source.name, raw[_key(source)]) for source in common_sources(arms))


class _TrainingTexts:
    """Writes the training texts of each source once per process.

    Args:
        folder: where they are written.
        raw: raw corpora by the key of their source.
        held_out: hashes of held-out documents.
        share: share of the documents to write.
    """

    def __init__(self, folder: Path, raw: dict[str, Corpus], held_out: set[int], share: float) -> None:
        self._folder, self._raw, self._held_out, self._share = folder, raw, held_out, share
        self._written: dict[str, Path] = {}

    def path(self, source: Source) -> Path:
        """Return the file of a source's training texts."""
        key = _key(source)
        if key not in self._written:
            chosen = fingerprint({"held_out": sorted(self._held_out), "share": self._share})[:8]
            path = self._folder / f"{key}-{chosen}.jsonl"
            if not path.exists():  # it is written atomically, and its hash is checked by its reader
                write_training_texts(path, self._raw[key], self._held_out, self._share)
            self._written[key] = path
        return self._written[key]
