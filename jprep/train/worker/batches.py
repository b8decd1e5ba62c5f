"""The batches of a job: packed text, conversations or labelled rows, for training and validation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from jprep.dataset.conversations.sampler import ConversationSampler
from jprep.dataset.labelled.dataset import LabelledBatch, LabelledSampler
from jprep.dataset.manifest import TRAIN, VALIDATION
from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.sampler import Batch, TextSampler, open_split_data
from jprep.dataset.sampling.staged import StagedSampler
from jprep.errors import ConfigError, MismatchError
from jprep.train.job.config import Job
from jprep.train.job.data_summary import conversation_sampler, text_sampler
from jprep.train.job.labelled_data import LabelledSplits, read_labelled_splits
from jprep.train.run.directory import sample_lists_folder

AnySampler = TextSampler | StagedSampler | LabelledSampler | ConversationSampler


class Batches:
    """The training and validation batches of a run.

    Data is read when it is first used.

    Args:
        run: the run directory, which the job's paths are relative to.
        job: the job.
        evaluated_split: the split that is measured in place of the validation split; "" in a training.
    """

    def __init__(self, run: Path, job: Job, evaluated_split: str = "") -> None:
        self._run, self._job, self._evaluated_split = run, job, evaluated_split

    @cached_property
    def train(self) -> AnySampler:
        """The sampler of the training split.

        Raises:
            ConfigError: the split is empty, or the data cannot be read.
            MismatchError: the data is not that of the job.
        """
        found = self._split(TRAIN)
        if found.samples != self._job.samples:
            what = f"an epoch has {found.samples} samples, but the job was built for {self._job.samples}"
            raise MismatchError(what, where=str(self._run), fix="give `jprep train` another output directory")
        return found

    @cached_property
    def validation(self) -> AnySampler:
        """The sampler of the validation split, or of the one to evaluate.

        Raises:
            ConfigError: there is none, or it is empty.
        """
        return self._split(self._evaluated_split or VALIDATION)

    def open(self) -> None:
        """Read what a worker needs; see `train` and `validation` for errors."""
        if not self._evaluated_split:
            _ = self.train
        if self._evaluated_split or self._job.train.validation.enabled:
            _ = self.validation

    def validating(self, rank: int, world: int) -> Iterator[Batch | LabelledBatch]:
        """Yield this rank's rows of each validation batch: the whole split once, or the job's number of batches.

        The last batch may have fewer rows, and no row for some ranks.
        """
        sampler = self.validation
        steps = -(-sampler.samples // self._job.train.batch)
        for step in range(min(steps, self._job.train.validation.batches or steps)):
            batch = sampler.batch(step, rank, world)
            yield _first_epoch(batch) if batch.epochs.any() else batch

    @cached_property
    def _rows(self) -> LabelledSplits:
        from jprep.tokenizer import load_tokenizer  # imports libraries that runs on packed text do not need

        job, run = self._job, self._run
        return read_labelled_splits(job.train, load_tokenizer(run / job.tokenizer), run, job.labels)

    def _split(self, split: str) -> AnySampler:
        if self._job.train.has_labelled_rows:
            return self._labelled(split, self._rows)
        return _conversations(self._run, self._job, split) if self._job.chat else self._text(split)

    def _text(self, split: str) -> TextSampler | StagedSampler:
        job, section = self._job, self._job.train
        folder = self._run / job.dataset
        mix = job.mix if split == TRAIN or self._evaluated_split else None  # to evaluate one source
        source = open_split_data(folder, split, sample_lists_folder(folder, self._run), by_source=mix is not None)
        masked = section.task in ("mlm", "rtd")
        masking = Masking(section.masking, job.special, source.separators.newline) if masked else None
        return text_sampler(section, source, split, job.special, masking, mix)

    def _labelled(self, split: str, found: LabelledSplits) -> LabelledSampler:
        data, rows = (found.data, found.rows) if split == TRAIN else (found.validation, found.validation_rows)
        if not len(rows):
            raise ConfigError("there is nothing to validate on", fix="give validation_data, or folds under labelled")
        train = self._job.train
        return LabelledSampler(data, train.batch, train.seed, split, rows, train.drop_last and split == TRAIN)


def _conversations(run: Path, job: Job, split: str) -> ConversationSampler:
    from jprep.dataset.conversations.encoding import ChatEncoder
    from jprep.tokenizer import load_tokenizer  # both import libraries that runs on packed text do not need

    section, chat = job.train, job.chat
    assert chat  # as this is a job of `sft`
    files = section.data if split == TRAIN else section.validation_data
    if not files:
        raise ConfigError("there is nothing to validate on", fix="give validation_data")
    encoder = ChatEncoder(load_tokenizer(run / job.tokenizer), chat.template, str(run))
    data = encoder.read([run / path for path in files], section.sft, section.length)
    return conversation_sampler(section, data, job.special, split)


def _first_epoch(batch: Any) -> Any:
    """Return a batch without the rows that belong to the next epoch."""
    inside = batch.epochs == 0
    return type(batch)(*(None if field is None else field[inside] for field in batch))
