"""What a job needs to know about its training data: the number of samples, the labels, and the hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jprep.dataset.conversations.config import Chat, describe_counts
from jprep.dataset.conversations.encoding import ChatEncoder, Conversations
from jprep.dataset.conversations.sampler import ConversationSampler
from jprep.dataset.conversations.template import read_template
from jprep.dataset.labelled.reader import RowCounts
from jprep.dataset.manifest import TRAIN, VALIDATION, DatasetManifest, read_dataset, refuse_other_tokenizer
from jprep.dataset.mix import MixConfig, plain_mix
from jprep.dataset.sampling.masking import Masking, check_words
from jprep.dataset.sampling.mixed_order import SourceUse
from jprep.dataset.sampling.pair_sampler import PairSampler
from jprep.dataset.sampling.sampler import (
    SampleOrder,
    Sampler,
    SamplerConfig,
    SplitData,
    TextSampler,
    open_split_data,
)
from jprep.dataset.sampling.sources import SourceRange, check_packed_parts
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.dataset.sampling.staged import StagedSampler
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256
from jprep.train.job.config import SeenSource, TrainConfig
from jprep.train.job.labelled_data import class_weights, count_rows, read_labelled_splits

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer


class DataSummary(NamedTuple):
    """What a job needs to know about its data.

    Attributes:
        samples: rows in one epoch.
        labels: the class names; empty unless the task is `classify`.
        made_from: the hashes that enter the job's fingerprint.
        seen: returns what a number of rows takes of each source of a mixture; None without one.
        class_weights: weight of each label; empty for 1 each.
        chat: chat template and counts of conversations; None for other tasks.
        rows: counts of labelled rows; None for other tasks.
    """

    samples: int
    labels: tuple[str, ...]
    made_from: dict[str, Any]
    seen: Callable[[int], list[SeenSource]] | None = None
    class_weights: tuple[float, ...] = ()
    chat: Chat | None = None
    rows: RowCounts | None = None


def summarize_labelled(train: TrainConfig, tokenizer: Tokenizer) -> DataSummary:
    """Read labelled rows and summarize them.

    Raises:
        ConfigError: the data does not fit the task, has only one label, or has nothing to validate on.
        InputError: a row that cannot be used.
    """
    found = read_labelled_splits(train, tokenizer)
    names, files = found.data.names, ", ".join(train.data)
    if train.task == "classify" and len(names) < 2:
        fix = f"labels are read from the column {train.labelled.label!r}: set train.labelled.label to another one"
        raise ConfigError(f"all rows have the same label: {', '.join(names)}", where=files, fix=fix)
    if train.validation.enabled and not len(found.validation_rows):
        fix = "set validation.every_steps and every_epochs to 0, or give validation_data, or labelled.folds = 5"
        raise ConfigError("there is nothing to validate on", where=files, fix=fix)
    order = SampleOrder(len(found.rows), train.batch, train.seed, TRAIN, train.drop_last).checked()
    made_from = {"data": [file_sha256(Path(path)) for path in train.data]}
    weights = class_weights(train.class_weights, names, found.data.targets[found.rows])
    return DataSummary(order.epoch_rows, names, made_from, class_weights=weights, rows=count_rows(found))


def summarize_conversations(train: TrainConfig, tokenizer: Tokenizer, special: SpecialIds) -> DataSummary:
    """Read conversations and summarize them.

    Raises:
        ConfigError: the chat template does not fit the tokenizer, or there is nothing to train or to validate on.
        InputError: a conversation that cannot be used.
    """
    path = train.sft.template
    encoder = ChatEncoder(tokenizer, read_template(path), path)
    data = encoder.read(map(Path, train.data), train.sft, train.length)
    samples = conversation_sampler(train, data, special, TRAIN).samples
    counts: dict[str, int] = {}
    if train.validation_data:
        held = encoder.read(map(Path, train.validation_data), train.sft, train.length)
        conversation_sampler(train, held, special, VALIDATION)
        counts = held.counts
    elif train.validation.enabled:
        fix = "set validation.every_steps and every_epochs to 0, or give validation_data"
        raise ConfigError("there is nothing to validate on", where="train.validation_data", fix=fix)
    source = encoder.template.source
    marks = {"template": hashlib.sha256(source.encode()).hexdigest()} | train.sft.columns()
    made_from = {"data": [file_sha256(Path(path)) for path in train.data], "chat": marks}
    chat = Chat(template=source, end=encoder.end, counts=data.counts, validation_counts=counts)
    return DataSummary(samples, (), made_from, chat=chat)


def summarize_dataset(
    train: TrainConfig,
    tokenizer: Tokenizer,
    special: SpecialIds,
    folder: Path | None,
    lists: Path | None,
    mix: MixConfig | None = None,
) -> DataSummary:
    """Check that a dataset fits the job and the tokenizer, and summarize it.

    Args:
        train: the section.
        tokenizer: the tokenizer.
        special: the special ids of the job's samples.
        folder: the dataset's folder.
        lists: where lists of samples are stored; None stores them in the dataset.
        mix: how the sources of the dataset are mixed.

    Raises:
        ConfigError: there is no dataset, it does not fit the tokenizer, or it lacks what the job needs.
    """
    if folder is None:
        fix = "create one with `jprep dataset pack`"
        raise ConfigError(f"{train.task} needs a dataset", where="train.task", fix=fix)
    dataset = read_dataset(folder)
    _check_tokenizer(dataset, folder, tokenizer)
    masking = _masking(train, dataset, folder, special) if train.task in ("mlm", "rtd") else None
    if train.validation.enabled and not any(one.tokens for one in dataset.splits if one.name == VALIDATION):
        fix = "set validation.every_steps and every_epochs to 0, or pack the dataset with [dataset] validation = 0.005"
        raise ConfigError("there is nothing to validate on", where=str(folder), fix=fix)
    if mix:
        check_packed_parts(mix, dataset, folder)
    source = open_split_data(folder, TRAIN, lists, by_source=mix is not None)
    sampler = text_sampler(train, source, TRAIN, special, masking, mix)
    use = sampler.use if isinstance(sampler, StagedSampler) else sampler.mixed.use if sampler.mixed else None
    if train.next_sentence and train.validation.enabled:  # it may have no sentence pairs
        text_sampler(train, open_split_data(folder, VALIDATION, lists), VALIDATION, special, masking)
    made_from = {"dataset": dataset.fingerprint} | ({"mix": plain_mix(mix)} if mix else {})
    seen = partial(_seen_sources, use, source.sources) if mix and use else None
    return DataSummary(sampler.samples, (), made_from, seen)


def _seen_sources(use: Callable[[int], list[SourceUse]], sources: Sequence[SourceRange], rows: int) -> list[SeenSource]:
    """Return what the first rows of a run take of each source."""
    tokens = {one.name: one.stop - one.start for one in sources}
    return [SeenSource(one.name, one.rows, round(one.epochs * tokens[one.name]), one.epochs) for one in use(rows)]


def text_sampler(
    train: TrainConfig,
    source: SplitData,
    split: str,
    special: SpecialIds,
    masking: Masking | None,
    mix: MixConfig | None = None,
) -> TextSampler | StagedSampler:
    """Return the sampler of a split: of sentence pairs with `next_sentence`, else as `packing` says; in `stages`.

    Args:
        train: the recipe's section.
        source: the split.
        split: its name.
        special: the special ids of the job's samples.
        masking: masks tokens; None for `clm`.
        mix: how the split's sources are mixed.

    Raises:
        ConfigError: the split has no sample, or no sentence pairs.
        MachineError: the sample index cannot be written.
    """
    config = SamplerConfig(
        batch=train.batch,
        length=train.length,
        packing=train.packing,
        seed=train.seed,
        split=split,
        noise_keys=train.task == "rtd",
        documents=train.document_masks,
        drop_last=train.drop_last and split == TRAIN,
        mix=mix,
    )

    def make(config: SamplerConfig) -> TextSampler:
        if masking and train.next_sentence:
            return PairSampler(source, config, special, masking)
        return Sampler(source, config, special, masking)

    if split != TRAIN or not train.stages:
        return make(config)
    return StagedSampler(train.stages, config, make)


def conversation_sampler(
    train: TrainConfig, data: Conversations, special: SpecialIds, split: str
) -> ConversationSampler:
    """Return the sampler of conversations.

    Args:
        train: the recipe's section.
        data: the conversations.
        special: the special ids of the job's samples.
        split: the split.

    Raises:
        ConfigError: no conversation is left.
    """
    if not len(data):
        paths = train.data if split == TRAIN else train.validation_data
        files = ", ".join(paths)
        if not data.counts["conversations"]:
            what = "there are no conversations"
            if not any(Path(path).stat().st_size for path in paths):
                what += ": the file is empty" if len(paths) == 1 else ": the files are empty"
            fix = 'one JSON object per line: {"messages": [{"role": "user", "content": "…"}, …]}'
            raise ConfigError(what, where=files, fix=fix)
        fix = "raise train.length, or use files with answers of the assistant"
        raise ConfigError(f"nothing is left of {describe_counts(data.counts)}", where=files, fix=fix)
    drop_last = train.drop_last and split == TRAIN
    return ConversationSampler(data, train.length, special.pad, train.batch, train.seed, split, drop_last)


def _check_tokenizer(dataset: DatasetManifest, folder: Path, tokenizer: Tokenizer) -> None:
    fix = f"use the tokenizer that it was packed with, or pack it again with {tokenizer.folder}"
    refuse_other_tokenizer(dataset, tokenizer.card.fingerprint, where=folder, fix=fix)
    if dataset.vocab_size != tokenizer.vocab_size:
        what = f"the dataset has {dataset.vocab_size} ids, and the tokenizer {tokenizer.vocab_size}"
        raise ConfigError(what, where=str(folder), fix="pack it again with --restart")


def missing_mask_token(task: str) -> ConfigError:
    """Return the error for a task that masks tokens, with a tokenizer that has no mask token."""
    fix = 'train a tokenizer with special = ["roberta"] or ["bert"], or use task = "clm"'
    return ConfigError(f"{task} needs a mask token, and the tokenizer has none", where="train.task", fix=fix)


def _masking(train: TrainConfig, dataset: DatasetManifest, folder: Path, special: SpecialIds) -> Any:
    if special.mask is None:
        raise missing_mask_token(train.task)
    if train.masking.whole_word:
        check_words(dataset.made_from, str(folder), "set train.masking.whole_word = false")
    return Masking(train.masking, special, dataset.newline)
