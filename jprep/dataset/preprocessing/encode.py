"""The first stage of packing: encode each corpus shard separately."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.corpus.api import Corpus
from jprep.corpus.document import SENTENCE, WORD
from jprep.corpus.shard_reader import CorpusShard, read_batches, shard_of
from jprep.dataset.indexed.bit_packing import BitPacker
from jprep.dataset.manifest import SENTENCE_START, WORD_START
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder, EncodedDocuments
from jprep.dataset.preprocessing.placement import LEFT_OUT, Placement, split_of_folder
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.errors import InputError, JprepError
from jprep.io.atomic import atomic_path, file_sha256
from jprep.tokenizer import load_tokenizer

TOKENS, MARKS, LENGTHS = "tokens", "marks", "lengths"
KINDS = (TOKENS, MARKS, LENGTHS)

LEFT_OUT_COUNTS = "left_out"
"""Prefix of the counters of documents that no part of a mixture takes."""

_MAX_TOKENS = (1 << 31) - 1  # tokens per document: the index stores int32 lengths


def task_id(number: int) -> str:
    """Return the id of the task for a corpus shard."""
    return f"{number:06d}"


def count_name(split: str, what: str) -> str:
    """Return the counter name for a split's documents, tokens, bytes, words or sentences."""
    return f"{split}.{what}"


class EncodeStage(Stage):
    """Encode a corpus: each task writes tokens, marks and lengths of one shard, per split and part of a mixture.

    Args:
        corpus: the corpus to encode.
        tokenizer: the tokenizer's directory.
        placement: assigns documents to splits, and to parts of a mixture.
        made_from: everything that the output depends on.
        folder: output directory relative to the root, with a trailing slash.
    """

    name = "encoding"

    def __init__(
        self, corpus: Corpus, tokenizer: Path, placement: Placement, made_from: dict[str, Any], folder: str
    ) -> None:
        self._corpus, self._tokenizer, self._placement = corpus.folder, tokenizer, placement
        self._made_from, self._folder = made_from, folder
        self._shards = [shard_of(corpus.folder, file, "words") for file in corpus.manifest.parts]

    @cached_property
    def _encoder(self) -> DocumentEncoder:
        return DocumentEncoder(load_tokenizer(self._tokenizer))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tokenizer, which each process loads itself."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_encoder", "_shards")}

    def fields(self) -> dict[str, Any]:
        """Return the dataset's fingerprint fields."""
        return self._made_from

    def total(self) -> int:
        """Return the bytes of marked text."""
        return sum(shard.size for shard in self._shards)

    def tasks(self) -> Iterator[Task]:
        """Yield a task per shard."""
        for number, shard in enumerate(self._shards):
            yield Task(task_id(number), shard, shard.size, shard.sha256)

    def run(self, task: Task, root: Path) -> Result:
        """Encode one shard."""
        shard: CorpusShard = task.payload
        counts: dict[str, int] = {}
        folders = [folder for each in self._placement.folders().values() for folder in each]
        writers = {folder: _SplitWriter(root, f"{self._folder}{folder}/{task.id}") for folder in folders}
        with contextlib.ExitStack() as stack:
            for batch in read_batches(self._corpus, shard, ["words", *self._placement.columns]):
                places = self._placement.folders_of(batch)
                if not (taken := places != LEFT_OUT).all():
                    _count_left_out(batch["words"].filter(~taken), counts)
                    batch, places = batch.filter(taken), places[taken]
                if batch.num_rows:
                    tokens = self._encode(batch, shard)
                    for folder, writer in writers.items():
                        writer.add(_select(tokens, places == folder), stack)
        for folder, writer in writers.items():
            for what, count in writer.counts.items():
                name = count_name(split_of_folder(folder), what)
                counts[name] = counts.get(name, 0) + count
        return Result([output for writer in writers.values() for output in writer.outputs()], counts)

    def _encode(self, batch: Any, shard: CorpusShard) -> EncodedDocuments:
        import pyarrow as pa

        where = str(self._corpus / shard.path)
        try:
            tokens = self._encoder.encode(batch["words"].cast(pa.binary()).to_pylist())
        except JprepError as error:
            raise error.replace(where=where) from error
        if tokens.lengths.max() > _MAX_TOKENS:
            raise InputError("a document has more than 2**31 - 1 tokens", where=where, fix="remove it with a filter")
        return tokens


def _count_left_out(words: Any, counts: dict[str, int]) -> None:
    """Count documents, and the bytes of their text."""
    import pyarrow as pa

    texts = words.cast(pa.binary()).to_pylist()
    size = sum(len(text) - text.count(WORD.encode()) - text.count(SENTENCE.encode()) for text in texts)
    for what, count in (("documents", len(texts)), ("bytes", size)):
        name = count_name(LEFT_OUT_COUNTS, what)
        counts[name] = counts.get(name, 0) + count


def _select(tokens: EncodedDocuments, chosen: npt.NDArray[np.bool_]) -> EncodedDocuments:
    """Select documents."""
    if chosen.all():
        return tokens
    kept = np.repeat(chosen, tokens.lengths)
    return EncodedDocuments(tokens.tokens[kept], tokens.marks[kept], tokens.lengths[chosen], tokens.size[chosen])


class _SplitWriter:
    """Writes one shard's contribution to one split. Without documents no file is written.

    Args:
        root: the directory that output paths are relative to.
        path: relative path of its files, without suffix.
    """

    def __init__(self, root: Path, path: str) -> None:
        self._root, self._path = root, path
        self._files: dict[str, Any] = {}
        self._packer: BitPacker | None = None
        self.counts: dict[str, int] = {}

    def add(self, tokens: EncodedDocuments, stack: contextlib.ExitStack) -> None:
        """Write documents. The files are committed when the stack closes."""
        if not len(tokens.lengths):
            return
        if self._packer is None:
            self._packer = self._open(stack)
        self._files[TOKENS].write(tokens.tokens.data)
        self._files[LENGTHS].write(tokens.lengths.astype("<i4").data)
        self._packer.add(tokens.marks)
        self._count("documents", len(tokens.lengths))
        self._count("tokens", len(tokens.tokens))
        self._count("bytes", int(tokens.size.sum()))
        self._count("words", int(np.count_nonzero(tokens.marks & WORD_START)))
        self._count("sentences", int(np.count_nonzero(tokens.marks & SENTENCE_START)))

    def _open(self, stack: contextlib.ExitStack) -> BitPacker:
        for kind in KINDS:
            temporary = stack.enter_context(atomic_path(self._root / f"{self._path}.{kind}"))
            self._files[kind] = stack.enter_context(temporary.open("wb"))
        packer = BitPacker(self._files[MARKS])
        stack.callback(packer.end)
        return packer

    def _count(self, what: str, more: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    def outputs(self) -> list[Output]:
        """Return the committed files."""
        rows = {TOKENS: "tokens", MARKS: "tokens", LENGTHS: "documents"}
        paths = {kind: f"{self._path}.{kind}" for kind in self._files}
        return [Output(path, self.counts[rows[kind]], file_sha256(self._root / path)) for kind, path in paths.items()]
