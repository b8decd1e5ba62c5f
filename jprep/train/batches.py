"""A job's batches: of packed text or of labelled rows, to train on and to validate on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jprep.dataset.labelled import Labelled, LabelledBatch, LabelledSampler, encode_labelled
from jprep.dataset.labelled_rows import Task
from jprep.dataset.masking import Masking
from jprep.dataset.sampler import Batch, Sampler, SamplerConfig, source_of
from jprep.dataset.spec import TRAIN, VALIDATION
from jprep.errors import ConfigError, MismatchError
from jprep.train.job import Job

LISTS = "lists"
"""The folder of a run for lists of samples, where the dataset's own may not be written to."""


class Batches:
    """What a run trains on and validates on.

    Args:
        run: the run directory, from which the job's paths lead.
        job: the job.

    Raises:
        ConfigError: a split has no sample, or the data cannot be read.
        MismatchError: the data is not what the job was made for.
    """

    def __init__(self, run: Path, job: Job) -> None:
        self._run, self._job = run, job
        self._labelled: dict[tuple[str, ...], Labelled] = {}
        self.train = self._rows(TRAIN) if job.train.data else self._text(TRAIN)
        self._validation: Sampler | LabelledSampler | None = None
        if not job.train.data and self.train.samples != job.samples:
            what = f"the job was made for {job.samples} samples an epoch, and there are {self.train.samples}"
            raise MismatchError(what, where=str(run), fix="give `jprep train` another output directory")

    @property
    def validation(self) -> Sampler | LabelledSampler:
        """The validation split.

        Raises:
            ConfigError: there is none, or it is empty.
        """
        if self._validation is None:
            self._validation = self._rows(VALIDATION) if self._job.train.data else self._text(VALIDATION)
        return self._validation

    def validating(self, rank: int, world: int) -> Iterator[Batch | LabelledBatch]:
        """Each sample of the validation split once, or as many batches of them as the job says.

        The last batch may have fewer rows, and none for some ranks.
        """
        sampler = self.validation
        steps = -(-sampler.samples // self._job.train.batch)
        for step in range(min(steps, self._job.train.validation.batches or steps)):
            batch = sampler.batch(step, rank, world)
            yield _first_epoch(batch) if batch.epochs.any() else batch

    def _text(self, split: str) -> Sampler:
        job, section = self._job, self._job.train
        folder = self._run / job.dataset
        lists = folder if os.access(folder, os.W_OK) else self._run / LISTS
        source = source_of(folder, split, lists)
        masking = Masking(section.masking, job.special, source.separators.newline) if section.task == "mlm" else None
        config = SamplerConfig(
            batch=section.batch, length=section.length, packing=section.packing, seed=section.seed, split=split
        )
        return Sampler(source, config, job.special, masking)

    def _rows(self, split: str) -> LabelledSampler:
        section = self._job.train
        held_out = section.validation_data
        if split == TRAIN or held_out:
            data = self._encoded(section.data if split == TRAIN else held_out)
            rows = data.split(0)[0] if split == TRAIN and not held_out and section.labelled.folds else None
            return LabelledSampler(data, section.batch, section.seed, split, rows)
        if not section.labelled.folds:
            raise ConfigError("there is nothing to validate on", fix="give validation_data, or folds under labelled")
        data = self._encoded(section.data)
        return LabelledSampler(data, section.batch, section.seed, split, data.split(0)[1])

    def _encoded(self, paths: list[str]) -> Labelled:
        from jprep.tokenizer import load_tokenizer  # with libraries that runs on packed text do without

        key = tuple(paths)
        if key not in self._labelled:
            job, task = self._job, self._job.train.task
            tokenizer = load_tokenizer(self._run / job.tokenizer)
            kind: Task = "classify" if task == "classify" else "regress"
            files = [self._run / path for path in paths]
            self._labelled[key] = encode_labelled(files, tokenizer, job.train.labelled, kind, job.labels)
        return self._labelled[key]


def _first_epoch(batch: Any) -> Any:
    """A batch without the rows that lie beyond the first epoch."""
    inside = batch.epochs == 0
    return type(batch)(*(None if field is None else field[inside] for field in batch))
