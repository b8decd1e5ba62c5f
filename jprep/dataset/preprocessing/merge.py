"""The second stage of packing: merge the encoded shards of each split in pieces that tasks write independently.

The offsets of all shards are known from the receipts of the encoding. A piece is a fixed number of tokens, so that it
starts at a whole block of marks and at a whole page of the file of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from jprep.dataset.indexed.bit_packing import Marks, unpack_marks
from jprep.dataset.indexed.mark_file import MarkBlocks
from jprep.dataset.indexed.split import BIN, IDX, Integers, write_index
from jprep.dataset.preprocessing.encode import KINDS
from jprep.dataset.preprocessing.file_ranges import PartWriter, write_part
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import atomic_path, file_sha256
from jprep.io.verified_files import copy_range, copy_verified, read_verified, verify_file

PIECE = 1 << 25
"""Tokens of a piece, a multiple of `BLOCK`."""

MARKS_FOLDER = "marks"

_MARKS = 1 << 22  # marks unpacked at a time


class _EncodedShard(msgspec.Struct, frozen=True):
    """One shard's contribution to a folder: its three files, whose rows are tokens, tokens and documents."""

    tokens: Output
    marks: Output
    lengths: Output


class _Part(msgspec.Struct, frozen=True):
    """A range of a shard's tokens that lies in a piece, and the tasks of all pieces that have tokens of the shard."""

    shard: _EncodedShard
    start: int
    stop: int
    readers: list[str]


class _Piece(msgspec.Struct, frozen=True):
    """The tokens `start` to `stop` of a split, which has `total`."""

    split: str
    start: int
    stop: int
    total: int
    parts: list[_Part]


class MergeStage(Stage):
    """Merge the encoded shards: tasks write pieces of the tokens and marks of each split, and its index.

    Args:
        encoded: receipts of the stage before.
        splits: name of each split → the folders of its encoded shards, in order.
        dtype: type of a token.
        made_from: what the encoded shards were made from.
        folder: where to write pieces, relative to the root, with a trailing slash.
        piece: tokens of a piece, a multiple of `BLOCK`; 0 for `PIECE`.
    """

    name = "joining"

    def __init__(
        self,
        encoded: list[Receipt],
        splits: dict[str, list[str]],
        dtype: str,
        made_from: dict[str, Any],
        folder: str,
        piece: int = 0,
    ) -> None:
        self._encoded, self._splits, self._dtype = encoded, splits, dtype
        self._made_from, self._folder, self._piece = fingerprint(made_from), folder, piece or PIECE

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the receipts; tasks carry what they need of them."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_encoded", "_shards")}

    @cached_property
    def _shards(self) -> dict[str, list[_EncodedShard]]:
        """The shards of each split, in order."""
        return {
            split: [shard for folder in folders for receipt in self._encoded for shard in _shards_of(receipt, folder)]
            for split, folders in self._splits.items()
        }

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint of the stage before."""
        return {"encoding": self._made_from}

    def total(self) -> int:
        """Return the bytes of tokens and of the indexes."""
        return sum(task.weight for task in self.tasks())

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks of each split: one per piece, and one for the index."""
        size = np.dtype(self._dtype).itemsize
        for split, shards in self._shards.items():
            for number, piece in enumerate(_pieces(split, shards, self._piece)):
                hashes = [(part.shard.tokens.sha256, part.shard.marks.sha256, part.start) for part in piece.parts]
                digest = fingerprint({"parts": hashes, "range": (piece.start, piece.stop)})
                yield Task(_piece_id(split, number), piece, size * (piece.stop - piece.start), digest)
            lengths = [shard.lengths for shard in shards]
            digest = fingerprint({"sha256": [output.sha256 for output in lengths]})
            yield Task(f"{split}-index", lengths, 20 * sum(output.rows for output in lengths), digest)

    def consumes(self, task: Task) -> Iterator[tuple[Output, Sequence[str]]]:
        """Yield the encoded files."""
        if isinstance(task.payload, _Piece):
            for part in task.payload.parts:
                yield part.shard.tokens, part.readers
                yield part.shard.marks, part.readers
        else:
            yield from ((lengths, [task.id]) for lengths in task.payload)

    def run(self, task: Task, root: Path) -> Result:
        """Write a piece, or an index."""
        if not isinstance(task.payload, _Piece):
            return Result([self._write_index(task.id.removesuffix("-index"), task.payload, root)])
        piece: _Piece = task.payload
        return Result([self._write_tokens(piece, root), self._write_marks(piece, task.id, root)])

    def _write_index(self, split: str, files: list[Output], root: Path) -> Output:
        documents = sum(file.rows for file in files)

        def lengths() -> Iterator[Integers]:
            for file in files:
                yield np.frombuffer(read_verified(root / file.path, file.sha256), "<i4").astype(np.int64)

        with atomic_path(root / f"{split}{IDX}") as temporary, temporary.open("wb") as file:
            write_index(file, self._dtype, documents, lengths)
        return Output(f"{split}{IDX}", documents, file_sha256(root / f"{split}{IDX}"))

    def _write_tokens(self, piece: _Piece, root: Path) -> Output:
        path, size = f"{self._folder}{piece.split}{BIN}", np.dtype(self._dtype).itemsize
        start, stop = size * piece.start, size * piece.stop
        with write_part(root / path, start, size * piece.total) as writer:
            for part in piece.parts:
                _copy_tokens(part, root, size, writer)
        return Output(path, piece.stop - piece.start, writer.sha256, start, stop)

    def _write_marks(self, piece: _Piece, task: str, root: Path) -> Output:
        """Write blocks of marks, and after them the size of each."""
        path = f"{self._folder}{MARKS_FOLDER}/{task}"
        with atomic_path(root / path) as temporary, temporary.open("wb") as file:
            _copy_marks(piece.parts, root, file)
        return Output(path, piece.stop - piece.start, file_sha256(root / path))


def _piece_id(split: str, number: int) -> str:
    return f"{split}-{number:06d}"


def _shards_of(receipt: Receipt, folder: str) -> Iterator[_EncodedShard]:
    files = {output.path.rpartition(".")[2]: output for output in receipt.outputs if output.folder == folder}
    if files:
        yield _EncodedShard(*(files[kind] for kind in KINDS))


def _pieces(split: str, shards: Sequence[_EncodedShard], size: int) -> Iterator[_Piece]:
    """Yield the pieces of a split; the last one may be shorter."""
    total, first, begin = sum(shard.tokens.rows for shard in shards), 0, 0  # `first` shard of the piece, and its start
    for start in range(0, max(total, 1), size):
        stop, parts = min(start + size, total), list[_Part]()
        while first < len(shards) and begin < stop:
            end = begin + shards[first].tokens.rows
            readers = [_piece_id(split, number) for number in range(begin // size, -(-end // size))]
            parts.append(_Part(shards[first], max(start, begin) - begin, min(stop, end) - begin, readers))
            if end > stop:
                break
            first, begin = first + 1, end
        yield _Piece(split, start, stop, total, parts)


def _copy_tokens(part: _Part, root: Path, size: int, writer: PartWriter) -> None:
    tokens = part.shard.tokens
    if part.stop - part.start == tokens.rows:
        copy_verified(root / tokens.path, tokens.sha256, writer.write)
    else:
        path = verify_file(root / tokens.path, tokens.sha256)
        copy_range(path, size * part.start, size * part.stop, writer.write)


def _copy_marks(parts: list[_Part], root: Path, file: BinaryIO) -> None:
    """Compress marks. Shards end inside blocks, so their marks are unpacked and packed again."""
    blocks = MarkBlocks(file)
    for part in parts:
        for marks in _read_marks(part, root):
            blocks.add(marks)
    blocks.end()
    file.write(np.array(blocks.sizes, "<u8").data)


def _read_marks(part: _Part, root: Path) -> Iterator[Marks]:
    file = part.shard.marks
    data = np.memmap(verify_file(root / file.path, file.sha256), np.uint8, "r")
    for start in range(part.start, part.stop, _MARKS):
        yield unpack_marks(data, start, min(start + _MARKS, part.stop))
