"""The last stage of packing: put the pieces of each split in place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jprep.dataset.indexed.mark_file import BLOCK, write_footer, write_header
from jprep.dataset.indexed.split import BIN, IDX, SUFFIXES
from jprep.dataset.indexed.split import MARKS as MARKS_SUFFIX
from jprep.dataset.preprocessing.file_ranges import verified_sha256
from jprep.dataset.preprocessing.merge import MARKS_FOLDER
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import atomic_path, file_sha256
from jprep.io.verified_files import read_verified


class CommitStage(Stage):
    """Put the files of tokens and marks in place: two tasks per split.

    Args:
        merged: receipts of the stage before.
        splits: names of the splits.
        made_from: what the encoded shards were made from.
    """

    name = "committing"
    title = "checking"

    def __init__(self, merged: Sequence[Receipt], splits: Sequence[str], made_from: dict[str, Any]) -> None:
        self._pieces = {split: _pieces_of(split, merged) for split in splits}
        self._made_from = fingerprint(made_from)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the pieces, which tasks carry."""
        return {name: value for name, value in self.__dict__.items() if name != "_pieces"}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint of the first stage."""
        return {"encoding": self._made_from}

    def total(self) -> int:
        """Return the number of tokens, once for each of the two files."""
        return sum(task.weight for task in self.tasks())

    def tasks(self) -> Iterator[Task]:
        """Yield a task per split and file."""
        for split, pieces in self._pieces.items():
            for suffix, files in pieces.items():
                digest = fingerprint({"sha256": [file.sha256 for file in files]})
                yield Task(f"{split}-{suffix[1:]}", (f"{split}{suffix}", files), sum(map(_rows, files)), digest)

    def consumes(self, task: Task) -> list[tuple[Output, list[str]]]:
        """Return the pieces of marks. The file of tokens becomes the final one."""
        path, files = task.payload
        return [] if path.endswith(BIN) else [(file, [task.id]) for file in files]

    def run(self, task: Task, root: Path) -> Result:
        """Put a file in place."""
        path, files = task.payload
        if path.endswith(BIN):
            sha256 = _link_tokens(root, path, files)
        else:
            with atomic_path(root / path) as temporary, temporary.open("wb") as file:
                _join_marks(file, root, files)
            sha256 = file_sha256(root / path)
        return Result([Output(path, sum(map(_rows, files)), sha256)])


def files_of(split: str, receipts: Sequence[Receipt]) -> list[Output]:
    """Return the files of a split, from the receipts of the last two stages."""
    outputs = {output.path: output for receipt in receipts for output in receipt.outputs}
    return [outputs[f"{split}{suffix}"] for suffix in SUFFIXES]


def _rows(file: Output) -> int:
    return file.rows


def _pieces_of(split: str, merged: Sequence[Receipt]) -> dict[str, list[Output]]:
    """Return the pieces of the tokens and of the marks, by the suffix of their file."""
    receipts = [each for each in merged if each.task.rpartition("-")[0] == split]
    outputs = [output for each in receipts for output in each.outputs if not output.path.endswith(IDX)]
    marks = [output for output in outputs if output.folder == MARKS_FOLDER]
    return {BIN: [output for output in outputs if output not in marks], MARKS_SUFFIX: marks}


def _link_tokens(root: Path, path: str, parts: Sequence[Output]) -> str:
    """Give the file whose parts were written its final name; return its hash.

    It is a hard link: the file under its first name stays, for a damaged part to be written again.
    """
    source = root / parts[0].path
    sha256 = verified_sha256(source, [(part.stop, part.sha256) for part in parts])
    with atomic_path(root / path) as temporary:
        try:
            os.link(source, temporary)
        except OSError:  # the file system has no hard links
            shutil.copyfile(source, temporary)
    return sha256


def _join_marks(file: BinaryIO, root: Path, pieces: Sequence[Output]) -> None:
    sizes = [np.zeros(0, "<u8")]
    write_header(file)
    for piece in pieces:
        data = read_verified(root / piece.path, piece.sha256)
        end = len(data) - 8 * -(-piece.rows // BLOCK)
        file.write(memoryview(data)[:end])
        sizes.append(np.frombuffer(data[end:], "<u8"))
    write_footer(file, np.concatenate(sizes), sum(piece.rows for piece in pieces))
