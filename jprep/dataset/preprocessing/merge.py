"""The second stage of packing: the parts of each split one behind the other."""

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


class _Piece(msgspec.Struct, frozen=True):
    """What one part gave to a split: its three files, whose rows are tokens, tokens and documents."""

    tokens: Output
    marks: Output
    lengths: Output


class MergeStage(Stage):
    """Makes one split's three files of its parts.

    Args:
        encoded: the stage before's receipts.
        splits: the splits that there are.
        dtype: of a token.
        made_from: what the parts were made from.
    """

    name = "joining"

    def __init__(self, encoded: list[Receipt], splits: list[str], dtype: str, made_from: dict[str, Any]) -> None:
        self._encoded, self._splits, self._dtype = encoded, splits, dtype
        self._made_from = fingerprint(made_from)

    def __getstate__(self) -> dict[str, Any]:
        """What a task needs of the receipts travels with it."""
        return self.__dict__ | {"_encoded": []}

    def fields(self) -> dict[str, Any]:
        """What was encoded."""
        return {"encoding": self._made_from}

    def total(self) -> int:
        """Bytes of tokens."""
        return sum(task.weight for task in self.tasks())

    def tasks(self) -> Iterator[Task]:
        """A task for each split."""
        for split in self._splits:
            outputs = [output for receipt in self._encoded for output in receipt.outputs if output.folder == split]
            digest = fingerprint({"sha256": [output.sha256 for output in outputs]})
            pieces = [piece for receipt in self._encoded for piece in _pieces(receipt, split)]
            size = np.dtype(self._dtype).itemsize
            yield Task(split, pieces, size * sum(piece.tokens.rows for piece in pieces), digest)

    def run(self, task: Task, root: Path) -> Result:
        """Join one split's parts."""
        pieces: list[_Piece] = task.payload
        documents, tokens = sum(piece.lengths.rows for piece in pieces), sum(piece.tokens.rows for piece in pieces)

        def lengths() -> Iterator[Integers]:
            for piece in pieces:
                data = read_verified(root / piece.lengths.path, piece.lengths.sha256)
                yield np.frombuffer(data, "<i4").astype(np.int64)

        def write(suffix: str, rows: int, join: Callable[[BinaryIO], None]) -> Output:
            path = f"{task.id}{suffix}"
            with atomic_path(root / path) as temporary, temporary.open("wb") as file:
                join(file)
            return Output(path, rows, file_sha256(root / path))

        tokens_file = write(BIN, tokens, lambda file: _join_tokens(file, root, pieces))
        index_file = write(IDX, documents, lambda file: write_index(file, self._dtype, documents, lengths))
        marks_file = write(MARKS_SUFFIX, tokens, lambda file: _join_marks(file, root, pieces))
        return Result([tokens_file, index_file, marks_file])


def _pieces(receipt: Receipt, split: str) -> Iterator[_Piece]:
    files = {output.path.rpartition(".")[2]: output for output in receipt.outputs if output.folder == split}
    if files:
        yield _Piece(*(files[kind] for kind in KINDS))


def _join_tokens(file: BinaryIO, root: Path, pieces: list[_Piece]) -> None:
    for piece in pieces:
        copy_verified(root / piece.tokens.path, piece.tokens.sha256, file.write)


def _join_marks(file: BinaryIO, root: Path, pieces: list[_Piece]) -> None:
    """Parts end within blocks: their marks are unpacked, and packed again where they come to lie."""
    writer = MarkWriter(file)
    for piece in pieces:
        for marks in read_marks(root, piece.marks):
            writer.add(marks)
    writer.end()
