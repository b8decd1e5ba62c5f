"""The second stage of packing: concatenate the encoded shards of each split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from jprep.dataset.indexed.mark_file import MarkWriter
from jprep.dataset.indexed.split import BIN, IDX, Integers, write_index
from jprep.dataset.indexed.split import MARKS as MARKS_SUFFIX
from jprep.dataset.preprocessing.encode import KINDS, read_marks
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import atomic_path, file_sha256
from jprep.io.verified_files import copy_verified, read_verified


class _EncodedShard(msgspec.Struct, frozen=True):
    """One shard's contribution to a folder: its three files, whose rows are tokens, tokens and documents."""

    tokens: Output
    marks: Output
    lengths: Output


class MergeStage(Stage):
    """Merge the encoded shards into the three files of each split.

    Args:
        encoded: receipts of the stage before.
        splits: name of each split → the folders of its encoded shards, in order.
        dtype: type of a token.
        made_from: what the encoded shards were made from.
    """

    name = "joining"

    def __init__(
        self, encoded: list[Receipt], splits: dict[str, list[str]], dtype: str, made_from: dict[str, Any]
    ) -> None:
        self._encoded, self._splits, self._dtype = encoded, splits, dtype
        self._made_from = fingerprint(made_from)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the receipts; tasks carry what they need of them."""
        return self.__dict__ | {"_encoded": []}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint of the stage before."""
        return {"encoding": self._made_from}

    def total(self) -> int:
        """Return the bytes of tokens."""
        return sum(task.weight for task in self.tasks())

    def tasks(self) -> Iterator[Task]:
        """Yield a task per split."""
        for split, folders in self._splits.items():
            places = [(folder, receipt) for folder in folders for receipt in self._encoded]
            outputs = [output for folder, receipt in places for output in receipt.outputs if output.folder == folder]
            digest = fingerprint({"sha256": [output.sha256 for output in outputs]})
            shards = [shard for folder, receipt in places for shard in _shards_of(receipt, folder)]
            size = np.dtype(self._dtype).itemsize
            yield Task(split, shards, size * sum(shard.tokens.rows for shard in shards), digest)

    def run(self, task: Task, root: Path) -> Result:
        """Merge one split's shards."""
        shards: list[_EncodedShard] = task.payload
        documents, tokens = sum(shard.lengths.rows for shard in shards), sum(shard.tokens.rows for shard in shards)

        def lengths() -> Iterator[Integers]:
            for shard in shards:
                data = read_verified(root / shard.lengths.path, shard.lengths.sha256)
                yield np.frombuffer(data, "<i4").astype(np.int64)

        def write(suffix: str, rows: int, merge: Callable[[BinaryIO], None]) -> Output:
            path = f"{task.id}{suffix}"
            with atomic_path(root / path) as temporary, temporary.open("wb") as file:
                merge(file)
            return Output(path, rows, file_sha256(root / path))

        tokens_file = write(BIN, tokens, lambda file: _merge_tokens(file, root, shards))
        index_file = write(IDX, documents, lambda file: write_index(file, self._dtype, documents, lengths))
        marks_file = write(MARKS_SUFFIX, tokens, lambda file: _merge_marks(file, root, shards))
        return Result([tokens_file, index_file, marks_file])


def _shards_of(receipt: Receipt, folder: str) -> Iterator[_EncodedShard]:
    files = {output.path.rpartition(".")[2]: output for output in receipt.outputs if output.folder == folder}
    if files:
        yield _EncodedShard(*(files[kind] for kind in KINDS))


def _merge_tokens(file: BinaryIO, root: Path, shards: list[_EncodedShard]) -> None:
    for shard in shards:
        copy_verified(root / shard.tokens.path, shard.tokens.sha256, file.write)


def _merge_marks(file: BinaryIO, root: Path, shards: list[_EncodedShard]) -> None:
    """Concatenate marks. Shards end inside blocks, so their marks are unpacked and packed again."""
    writer = MarkWriter(file)
    for shard in shards:
        for marks in read_marks(root, shard.marks):
            writer.add(marks)
    writer.end()
