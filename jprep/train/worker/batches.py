"""A job's batches: of packed text or of labelled rows, to train on and to validate on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jprep.dataset.labelled.dataset import LabelledBatch, LabelledSampler
from jprep.dataset.manifest import TRAIN, VALIDATION
from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.sampler import Batch, Sampler, SamplerConfig, open_split_data
from jprep.errors import ConfigError, MismatchError
from jprep.train.job.config import Job
from jprep.train.job.labelled_data import LabelledSplits, read_labelled_splits
from jprep.train.run.directory import sample_lists_folder


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
        self._rows = _read(run, job) if job.train.data else None
        self.train = self._split(TRAIN)
        self._validation: Sampler | LabelledSampler | None = None
        if self.train.samples != job.samples:
            what = f"the job was made for {job.samples} samples an epoch, and there are {self.train.samples}"
            raise MismatchError(what, where=str(run), fix="give `jprep train` another output directory")

    @property
    def validation(self) -> Sampler | LabelledSampler:
        """The validation split.

        Raises:
            ConfigError: there is none, or it is empty.
        """
        if self._validation is None:
            self._validation = self._split(VALIDATION)
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

    def _split(self, split: str) -> Sampler | LabelledSampler:
        return self._labelled(split, self._rows) if self._rows else self._text(split)

    def _text(self, split: str) -> Sampler:
        job, section = self._job, self._job.train
        folder = self._run / job.dataset
        source = open_split_data(folder, split, sample_lists_folder(folder, self._run))
        masking = Masking(section.masking, job.special, source.separators.newline) if section.task == "mlm" else None
        config = SamplerConfig(
            batch=section.batch, length=section.length, packing=section.packing, seed=section.seed, split=split
        )
        return Sampler(source, config, job.special, masking)

    def _labelled(self, split: str, found: LabelledSplits) -> LabelledSampler:
        data, rows = (found.data, found.rows) if split == TRAIN else (found.validation, found.validation_rows)
        if not len(rows):
            raise ConfigError("there is nothing to validate on", fix="give validation_data, or folds under labelled")
        return LabelledSampler(data, self._job.train.batch, self._job.train.seed, split, rows)


def _read(run: Path, job: Job) -> LabelledSplits:
    from jprep.tokenizer import load_tokenizer  # with libraries that runs on packed text do without

    return read_labelled_splits(job.train, load_tokenizer(run / job.tokenizer), run, job.labels)


def _first_epoch(batch: Any) -> Any:
    """A batch without the rows that lie beyond the first epoch."""
    inside = batch.epochs == 0
    return type(batch)(*(None if field is None else field[inside] for field in batch))
