"""Merging encoded shards in pieces: the same files for any pieces, workers and interruptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from jprep.dataset.indexed.bit_packing import pack_marks
from jprep.dataset.indexed.mark_file import BLOCK
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.preprocessing.commit import CommitStage, files_of
from jprep.dataset.preprocessing.merge import MergeStage
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress, TaskRunner, run_stage
from jprep.engine.stage import Output, Receipt, Task
from jprep.errors import DamagedError, JprepError
from jprep.io.atomic import file_sha256, write_atomic
from tests.conftest import digests

SIZES = [100, 3 * BLOCK, 1, BLOCK - 101, 5000, 2 * BLOCK + 7]
"""Tokens of the shards: shorter and longer than a piece, and ends at a border of pieces."""

FILES = ("train.bin", "train.idx", "train.marks")


class FailsBefore:
    """An executor that fails before its n-th task."""

    def __init__(self, number: int) -> None:
        self._number = number

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        for number, task in enumerate(tasks):
            if number == self._number:
                raise JprepError("killed")
            yield task, job(task)

    def close(self) -> None:
        pass


def encode(root: Path, sizes: Sequence[int] = SIZES) -> tuple[list[Receipt], np.ndarray, np.ndarray, list[int]]:
    """Write encoded shards; return their receipts, all tokens, all marks and all lengths."""
    rng, receipts, tokens, marks, lengths = np.random.default_rng(1), [], [], [], []
    for number, size in enumerate(sizes):
        tokens.append(rng.integers(0, 60_000, size, np.uint16))
        marks.append(rng.integers(0, 4, size, np.uint8))
        own = [size] if size < 10 else [3, size - 8, 5]
        lengths += own
        data = {"tokens": tokens[-1].astype("<u2"), "marks": pack_marks(marks[-1]), "lengths": np.array(own, "<i4")}
        outputs = []
        for kind, values in data.items():
            path = f"encoding/train/{number:06d}.{kind}"
            write_atomic(root / path, values.tobytes())
            outputs.append(Output(path, len(own) if kind == "lengths" else size, file_sha256(root / path)))
        receipts.append(Receipt(f"{number:06d}", "", "", outputs, {}, {}))
    return receipts, np.concatenate(tokens), np.concatenate(marks), lengths


def merge(root: Path, receipts: list[Receipt], piece: int, executor: object) -> list[Output]:
    stage = MergeStage(receipts, {"train": ["train"]}, "uint16", {}, "joining/", piece)
    merged = run_stage(stage, root, root / "joining", executor, SilentProgress())  # type: ignore[arg-type]
    commit = CommitStage(merged, ["train"], {})
    done = run_stage(commit, root, root / "committing", executor, SilentProgress())  # type: ignore[arg-type]
    return files_of("train", [*merged, *done])


def final(root: Path) -> dict[str, str]:
    return {name: file_sha256(root / name) for name in FILES}


@pytest.mark.parametrize(("piece", "workers"), [(BLOCK, 1), (2 * BLOCK, 2), (0, 1)])
def test_pieces_are_what_the_shards_hold(piece: int, workers: int, tmp_path: Path) -> None:
    receipts, tokens, marks, lengths = encode(tmp_path)
    with closing(Local(workers)) as executor:
        files = merge(tmp_path, receipts, piece, executor)
    split = IndexedSplit(tmp_path / "train", "uint16")
    assert np.array_equal(split.tokens, tokens) and np.array_equal(split.marks(0, len(tokens)), marks)
    assert np.diff(split.offsets).tolist() == lengths
    assert {file.path: file.sha256 for file in files} == final(tmp_path)
    assert [file.rows for file in files] == [len(tokens), len(lengths), len(tokens)]
    # Everything that was read is deleted, and the tokens are on the disk once.
    assert not [path for path in (tmp_path / "encoding").rglob("*") if path.is_file() and path.suffix != ".consumed"]
    assert (tmp_path / "train.bin").samefile(tmp_path / "joining" / "train.bin")


def test_killed_before_any_task_it_resumes_with_the_same_files(tmp_path: Path) -> None:
    merge(tmp_path / "whole", encode(tmp_path / "whole")[0], BLOCK, FailsBefore(99))
    expected, root = digests(tmp_path / "whole"), tmp_path / "killed"
    receipts = encode(root)[0]
    finished = -1
    for _ in range(20):  # one more task each time
        try:
            merge(root, receipts, BLOCK, FailsBefore(1))
            break
        except JprepError:
            now = len(list(root.glob("*/receipts/*.json")))
            assert now > finished
            finished = now
    assert digests(root) == expected


def test_a_damaged_part_is_not_put_in_place(tmp_path: Path) -> None:
    receipts = encode(tmp_path)[0]
    stage = MergeStage(receipts, {"train": ["train"]}, "uint16", {}, "joining/", BLOCK)
    with closing(Local(1)) as executor:
        merged = run_stage(stage, tmp_path, tmp_path / "joining", executor, SilentProgress())
        with (tmp_path / "joining" / "train.bin").open("r+b") as file:
            file.seek(2 * BLOCK + 5)
            file.write(b"??")
        commit = CommitStage(merged, ["train"], {})
        with pytest.raises(DamagedError, match="a part of this file was changed or damaged"):
            run_stage(commit, tmp_path, tmp_path / "committing", executor, SilentProgress())
    assert not (tmp_path / "train.bin").exists()
    job = TaskRunner(stage, tmp_path, tmp_path / "joining" / "receipts", merged[0].fingerprint)
    assert [task.id for task in stage.tasks() if not job.done(task)] == ["train-000001"]


def test_without_hard_links_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr("os.link", refuse)
    receipts, tokens, _, _ = encode(tmp_path)
    with closing(Local(1)) as executor:
        merge(tmp_path, receipts, BLOCK, executor)
    assert (tmp_path / "train.bin").read_bytes() == tokens.astype("<u2").tobytes()
