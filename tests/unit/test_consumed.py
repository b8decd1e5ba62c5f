"""Intermediate files are deleted once they are read, and made again only if what was made from them is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.engine.consumed import OutputChecks, consume_files
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress, TaskRunner, run_stage
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.errors import DamagedError
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.verified_files import read_verified

COUNT = 4


class Copies(Stage):
    """Copies the files of the stage before, or makes the first ones; records which tasks it runs."""

    def __init__(self, name: str, before: list[Receipt] | None = None) -> None:
        self.name, self._before = name, before
        self.ran: list[str] = []

    def fields(self) -> dict[str, Any]:
        return {}

    def tasks(self) -> Iterator[Task]:
        for number in range(COUNT):
            yield Task(f"{number:04}", self._before[number].outputs[0] if self._before else None)

    def consumes(self, task: Task) -> list[tuple[Output, list[str]]]:
        return [(task.payload, [task.id])] if task.payload else []

    def run(self, task: Task, root: Path) -> Result:
        self.ran.append(task.id)
        data = task.id.encode()
        if task.payload:
            data = read_verified(root / task.payload.path, task.payload.sha256) + b"+"
        path = f"{self.name}/{task.id}"
        write_atomic(root / path, data)
        return Result([Output(path, 1, file_sha256(root / path))])


def run(root: Path) -> list[list[str]]:
    """Run three stages; return the tasks that each has run."""
    stages, receipts = [], None
    for name in ("one", "two", "three"):
        stages.append(Copies(name, receipts))
        receipts = run_stage(stages[-1], root, root / "state" / name, Local(), SilentProgress())
    return [stage.ran for stage in stages]


def files(root: Path, name: str) -> list[str]:
    return sorted(path.name for path in (root / name).iterdir() if path.suffix != ".consumed")


def test_files_are_deleted_and_their_tasks_stay_done(tmp_path: Path) -> None:
    assert [len(ran) for ran in run(tmp_path)] == [COUNT] * 3
    assert [len(files(tmp_path, name)) for name in ("one", "two", "three")] == [0, 0, COUNT]
    assert run(tmp_path) == [[], [], []]


@pytest.mark.parametrize("damage", ["three/0002", "state/three/receipts/0002.json"])
def test_what_is_damaged_is_made_again_by_one_task_of_each_stage(damage: str, tmp_path: Path) -> None:
    run(tmp_path)
    for change in (lambda path: path.write_bytes(b"?"), lambda path: path.unlink()):
        change(tmp_path / damage)
        assert run(tmp_path) == [["0002"]] * 3
        assert (tmp_path / "three/0002").read_bytes() == b"0002++" and files(tmp_path, "two") == []


@pytest.mark.parametrize("data", [b"", b"{}", b'{"files": {}, "receipts": []}'])
def test_a_damaged_record_costs_a_repeated_task(data: bytes, tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "one/0001.consumed").write_bytes(data)
    assert run(tmp_path) == [["0001"], [], []]
    assert files(tmp_path, "one") == [] and run(tmp_path) == [[], [], []]


def test_one_record_stands_for_all_files_of_a_directory(tmp_path: Path) -> None:
    first = run_stage(Copies("one"), tmp_path, tmp_path / "state/one", Local(), SilentProgress())
    other = run_stage(Copies("other"), tmp_path, tmp_path / "state/other", Local(), SilentProgress())
    outputs = [output for receipt in first for output in receipt.outputs]
    for _ in range(2):
        consume_files(tmp_path, outputs, sorted((tmp_path / "state/other/receipts").iterdir()), "one")
    assert files(tmp_path, "one") == [] and (tmp_path / "one.consumed").exists()
    OutputChecks().verify(tmp_path, outputs)
    (tmp_path / other[0].outputs[0].path).unlink()
    with pytest.raises(DamagedError, match="is missing"):
        OutputChecks().verify(tmp_path, outputs)


def test_a_task_that_another_worker_has_finished_is_done(tmp_path: Path) -> None:
    """It fails because its input is deleted, and takes the other worker's receipt."""
    first = run_stage(Copies("one"), tmp_path, tmp_path / "state/one", Local(), SilentProgress())
    stage = Copies("two", first)
    done = run_stage(stage, tmp_path, tmp_path / "state/two", Local(), SilentProgress())
    job = TaskRunner(stage, tmp_path, tmp_path / "state/two/receipts", done[0].fingerprint)
    assert [job(task) for task in stage.tasks()] == done
    (tmp_path / "state/two/receipts/0001.json").unlink()
    with pytest.raises(DamagedError):
        job(list(stage.tasks())[1])


class Halves(Copies):
    """Two tasks read each file of the stage before."""

    def tasks(self) -> Iterator[Task]:
        for number in range(2 * COUNT):
            yield Task(f"{number:04}", self._before[number // 2].outputs[0] if self._before else None)

    def consumes(self, task: Task) -> list[tuple[Output, list[str]]]:
        first = int(task.id) // 2 * 2
        return [(task.payload, [f"{first:04}", f"{first + 1:04}"])]


@pytest.mark.parametrize("damaged", ["0002", "0003"])
def test_a_file_that_two_tasks_read_is_kept_until_the_damaged_one_is_repeated(damaged: str, tmp_path: Path) -> None:
    def run_both() -> list[list[str]]:
        first = Copies("one")
        read = run_stage(first, tmp_path, tmp_path / "state/one", Local(), SilentProgress())
        second = Halves("two", read)
        run_stage(second, tmp_path, tmp_path / "state/two", Local(), SilentProgress())
        return [first.ran, second.ran]

    assert [len(ran) for ran in run_both()] == [COUNT, 2 * COUNT]
    (tmp_path / "two" / damaged).write_bytes(b"?")
    assert run_both() == [["0001"], [damaged]]
    assert files(tmp_path, "one") == [] and run_both() == [[], []]
