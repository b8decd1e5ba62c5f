"""Export rows as they are trained on, in the order of training, as Examples with the features of other programs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.dataset.exports.base import TOKENIZER_FIX, ExportedSplit, ExportJob, ExportOptions
from jprep.dataset.exports.tfrecord.layouts import LAYOUTS, FeatureArrays, RowOptions
from jprep.dataset.exports.tfrecord.wire import examples, frame_records
from jprep.dataset.manifest import refuse_other_tokenizer, verify_split
from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import MaskedRows, Masking, check_words
from jprep.dataset.sampling.pair_sampler import PairSampler
from jprep.dataset.sampling.sampler import (
    Batch,
    Sampler,
    SamplerConfig,
    SplitData,
    TextSampler,
    mask_keys,
    open_split_data,
)
from jprep.dataset.sampling.special_ids import SpecialIds, special_ids
from jprep.engine.runner import sum_counts
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path, file_sha256
from jprep.tokenizer import load_tokenizer

VERSION = 1
"""Increased when the same dataset and options would give different bytes than before."""

OPTIONS = (
    "features",
    "packing",
    "next_sentence",
    "masks",
    "mask_rate",
    "whole_word",
    "dupe_factor",
    "max_predictions",
    "rows_per_shard",
    "seed",
)
"""The options of `ExportOptions` that only this form has."""

ROWS_PER_SHARD = 25_600
SHARD_NAME = "{split}-{number:05d}-of-{count:05d}-{rows}.tfrecord"

_ROWS = 256  # written at a time


class Settings(NamedTuple):
    """The options of an export with their defaults, and what they are applied to.

    Attributes:
        options: the options as given.
        special: the tokenizer's special ids.
        newline: id of the newline between paragraphs.
        masked: whether rows are masked already.
        masking: how tokens are masked.
        max_predictions: masked tokens of a row at most; 0 for any number.
    """

    options: ExportOptions
    special: SpecialIds
    newline: int
    masked: bool
    masking: MaskingConfig
    max_predictions: int

    @property
    def copies(self) -> int:
        """How often each sample is written, with masks, and sentence pairs, of its own."""
        return self.options.dupe_factor or 1

    def sampling(self, split: str) -> SamplerConfig:
        """Return which rows a split has, and their order."""
        options = self.options
        return SamplerConfig(
            batch=1,
            length=options.length or 0,
            packing=options.packing or "stream",
            seed=1 if options.seed is None else options.seed,
            split=split,
        )


def check(job: ExportJob) -> None:
    """Refuse options that exclude each other, a damaged dataset, and a different tokenizer than the dataset's.

    Raises:
        ConfigError: the message names the option.
        DamagedError: a file of the dataset has changed.
    """
    options = job.options
    if not options.features:
        for name in (name for name in OPTIONS if getattr(options, name) is not None):
            fix = f"add --features {'|'.join(LAYOUTS)}"
            raise ConfigError(f"{name} is for rows with the features of other programs", where=name, fix=fix)
        return
    _check_options(options)
    settings = _settings(job)
    _check_masks(settings)
    for split in job.dataset.splits:
        verify_split(job.folder, split)


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write the shards of all splits, resuming unfinished work; see `ExportFormat.write`."""
    splits = [split.name for split in job.dataset.splits if split.documents]
    stage = TrainingRows(_settings(job), {split: _open(job, split) for split in splits}, job.dataset.fingerprint)
    receipts = job.run_stage(stage)
    job.about = {"features": stage.features(), "counts": sum_counts([receipt.counts for receipt in receipts])}
    return [_exported(split, [each for each in receipts if _split_of(each) == split]) for split in splits], []


class TrainingRows(Stage):
    """Writes shards of rows.

    Args:
        settings: the options.
        sources: the splits by name.
        dataset: fingerprint of the dataset.
    """

    name = "rows"
    title = "writing rows"

    def __init__(self, settings: Settings, sources: dict[str, SplitData], dataset: str) -> None:
        self._settings, self._dataset = settings, dataset
        self._masking = Masking(settings.masking, settings.special, settings.newline) if settings.masked else None
        self._samplers = {split: self._open(source, split) for split, source in sources.items()}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the dataset, the special ids and the options."""
        return {"version": VERSION, "dataset": self._dataset, **self._settings._asdict()}

    def total(self) -> int:
        """Return the number of rows of all splits."""
        return sum(map(self._rows, self._samplers))

    def tasks(self) -> Iterator[Task]:
        """Yield one task for each shard."""
        size = self._settings.options.rows_per_shard or ROWS_PER_SHARD
        for order, split in enumerate(self._samplers):
            rows = self._rows(split)
            count = -(-rows // size)
            for number in range(count):
                first, last = number * size, min(rows, (number + 1) * size)
                name = SHARD_NAME.format(split=split, number=number, count=count, rows=last - first)
                yield Task(f"{order}-{split}-{number:08d}", (split, first, last, name), last - first)

    def run(self, task: Task, root: Path) -> Result:
        """Write one shard."""
        split, first, last, name = task.payload
        counts = dict.fromkeys(("rows", "tokens", "labels", "dropped_labels"), 0)
        with atomic_path(root / name) as temporary, temporary.open("wb") as file:
            for start in range(first, last, _ROWS):
                batch = self._read(split, start, min(last, start + _ROWS), counts)
                file.write(frame_records(list(examples(self._arrays(batch)))))
        return Result([Output(name, last - first, file_sha256(root / name))], counts)

    def features(self) -> dict[str, tuple[str, int]]:
        """Return type and number of the values of each feature."""
        arrays = self._arrays(next(iter(self._samplers.values())).rows(0, 0))
        return {name: ("float" if each.dtype.kind == "f" else "int64", each.shape[1]) for name, each in arrays.items()}

    def _arrays(self, batch: Batch) -> FeatureArrays:
        settings = self._settings
        options = RowOptions(settings.special, settings.masked, settings.max_predictions)
        return LAYOUTS[settings.options.features or ""](batch, options)

    def _open(self, source: SplitData, split: str) -> TextSampler:
        kind = PairSampler if self._settings.options.next_sentence else Sampler
        return kind(source, self._settings.sampling(split), self._settings.special, self._masking)

    def _rows(self, split: str) -> int:
        return self._samplers[split].samples * self._settings.copies

    def _read(self, split: str, start: int, stop: int, counts: dict[str, int]) -> Batch:
        """Return rows in the order of training, with no more labels than allowed, and count them."""
        whole = batch = self._samplers[split].rows(start, stop)
        if self._masking and self._settings.max_predictions:
            keys = mask_keys(self._settings.sampling(split), whole.epochs, whole.indices)
            rows = MaskedRows(whole.input_ids, whole.labels)
            limited = self._masking.limit(rows, keys, self._settings.max_predictions, whole.word_starts)
            batch = whole._replace(input_ids=limited.ids, labels=limited.labels)
        before, after = (int((each.labels >= 0).sum()) if self._settings.masked else 0 for each in (whole, batch))
        for name, count in zip(counts, (stop - start, int(batch.lengths.sum()), after, before - after), strict=True):
            counts[name] += count
        return batch


def _check_options(options: ExportOptions) -> None:
    electra, dynamic = options.features == "electra", _masks(options) == "dynamic"
    if options.length is None:
        fix = "e.g. --length 512, the maximum sequence length"
        raise ConfigError("rows with features need a length", where="features", fix=fix)
    if options.mask_rate is not None and not 0 <= options.mask_rate <= 1:
        raise ConfigError(f"mask_rate must be a share, not {options.mask_rate}", where="mask_rate", fix="e.g. 0.15")
    refused = (
        (options.shard_mb is not None, "shard_mb", "shards have a number of rows", "--rows-per-shard"),
        (electra and not dynamic, "masks", "ELECTRA masks its rows itself", "--masks dynamic"),
        (electra and options.next_sentence, "next_sentence", "ELECTRA has no next-sentence task", "--features bert"),
        (options.next_sentence and options.packing, "packing", "rows are sentence pairs", "no --packing"),
        (options.max_predictions and dynamic, "max_predictions", "rows are not masked", "--masks static"),
        (
            options.max_predictions and options.features != "bert",
            "max_predictions",
            "it is for bert",
            "--features bert",
        ),
        (dynamic and (options.mask_rate or options.whole_word), "masks", "rows are not masked", "--masks static"),
        (
            (options.dupe_factor or 1) > 1 and dynamic and not options.next_sentence,
            "dupe_factor",
            "all copies of unmasked rows would be the same",
            "--masks static",
        ),
    )
    for wrong, name, why, fix in refused:
        if wrong:
            raise ConfigError(f"{name} cannot be combined with the other options: {why}", where=name, fix=f"use {fix}")


def _check_masks(settings: Settings) -> None:
    if settings.masked and settings.special.mask is None:
        fix = "use --masks dynamic, or a tokenizer with the special tokens of bert or roberta"
        raise ConfigError("the tokenizer has no mask token", where="masks", fix=fix)
    if settings.masked:
        Masking(settings.masking, settings.special)


def _masks(options: ExportOptions) -> str:
    return options.masks or ("dynamic" if options.features == "electra" else "static")


def _settings(job: ExportJob) -> Settings:
    options, tokenizer = job.options, load_tokenizer(job.tokenizer)
    refuse_other_tokenizer(job.dataset, tokenizer.card.fingerprint, where=job.tokenizer, fix=TOKENIZER_FIX)
    if options.whole_word:
        check_words(job.dataset.made_from, str(job.folder), "leave out --whole-word")
    masking = MaskingConfig(whole_word=bool(options.whole_word))
    if options.mask_rate is not None:
        masking = msgspec.structs.replace(masking, rate=options.mask_rate)
    masked, most = _masks(options) == "static", options.max_predictions
    if options.features == "bert" and masked and most is None:
        most = math.ceil((options.length or 0) * masking.rate)
    return Settings(options, special_ids(tokenizer), job.dataset.newline, masked, masking, most or 0)


def _open(job: ExportJob, split: str) -> SplitData:
    lists = job.folder if os.access(job.folder, os.W_OK) else job.work_folder()
    return open_split_data(job.folder, split, lists)


def _split_of(receipt: Receipt) -> str:
    return receipt.task.split("-")[1]


def _exported(split: str, receipts: list[Receipt]) -> ExportedSplit:
    files = [output for receipt in receipts for output in receipt.outputs]
    rows, tokens = (sum(receipt.counts.get(name, 0) for receipt in receipts) for name in ("rows", "tokens"))
    return ExportedSplit(split, rows, tokens, 0, files)
