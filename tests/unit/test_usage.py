"""What stages took: recorded beside the output, and never part of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.engine.executors.local import Local
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS, STATE, USAGE
from jprep.engine.runner import SilentProgress
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.engine.usage import OutputUsage, measure_folder, read_records, read_usage
from jprep.errors import InputError
from jprep.io.atomic import file_sha256, write_atomic

SIZE = 1000


class Blocks(Stage):
    """Writes a block of bytes a task; one of them can fail."""

    name = "blocks"

    def __init__(self, tasks: int = 3, fail: int = -1) -> None:
        self._tasks, self._fail = tasks, fail

    def fields(self) -> dict[str, Any]:
        return {"version": 1}

    def tasks(self) -> Iterator[Task]:
        for number in range(self._tasks):
            yield Task(f"{number:04d}", number, digest=str(number))

    def run(self, task: Task, root: Path) -> Result:
        if task.payload == self._fail:
            raise InputError("damaged")
        path = f"documents/{task.id}"
        write_atomic(root / path, bytes(SIZE))
        return Result([Output(path, 1, file_sha256(root / path))])


def run(folder: Path, stage: Stage, *, finish: bool = False) -> OutputUsage:
    out = OutputDirectory(folder, CORPUS, files=("documents/*",))
    with out.claim():
        out.run_stage(stage, Local(1), SilentProgress())
        if finish:
            out.seal({"kept": True})
            out.clean()
    return read_usage(folder)


def test_a_stage_leaves_what_it_took(tmp_path: Path) -> None:
    taken = run(tmp_path / "out", Blocks(), finish=True)
    stage = taken.stages["blocks"]
    assert (stage.tasks, stage.written) == (3, 3 * SIZE)
    assert 0 < stage.longest <= stage.wall <= taken.wall
    assert stage.cpu > 0 and stage.memory > 1_000_000 and taken.memory >= stage.memory
    assert 3 * SIZE <= stage.disk <= taken.peak_disk and stage.files > 3
    assert sorted(path.name for path in (tmp_path / "out" / STATE).iterdir()) == ["LOCK", "usage.json"]


def test_tasks_of_earlier_runs_are_not_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(InputError):
        run(out, Blocks(fail=2))
    failed = read_usage(out)
    assert failed.stages["blocks"].tasks == 2
    taken = run(out, Blocks())
    assert taken.stages["blocks"].tasks == 3
    assert taken.stages["blocks"].wall > failed.stages["blocks"].wall and taken.wall > failed.wall


def test_a_run_that_finds_everything_done_changes_nothing(tmp_path: Path) -> None:
    first = run(tmp_path / "out", Blocks())
    assert run(tmp_path / "out", Blocks()) == first


def test_missing_and_damaged_records_are_no_error(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, Blocks())
    state = out / STATE / "blocks"
    [records] = (state / "usage").iterdir()
    records.write_bytes(records.read_bytes()[:-10])  # a process was killed as it wrote
    assert len(read_records(state).all) == 2
    (out / USAGE).write_bytes(b"{")
    assert read_usage(out) == OutputUsage()
    assert run(out, Blocks(4)).stages["blocks"].tasks == 3  # two of the records, and the new task's


def test_a_restart_forgets_what_was_deleted(tmp_path: Path) -> None:
    run(tmp_path / "out", Blocks(), finish=True)
    out = OutputDirectory(tmp_path / "out", CORPUS, files=("documents/*",))
    with out.claim():
        out.restart()
    assert not (tmp_path / "out" / USAGE).exists()


def test_workers_add_to_the_same_records(tmp_path: Path) -> None:
    out = OutputDirectory(tmp_path / "out", CORPUS, files=("documents/*",))
    with out.claim():
        assert read_usage(out.path) == OutputUsage()
        out.run_stage(Blocks(1), Local(1), SilentProgress())
        out.run_stage(Blocks(3), Local(1), SilentProgress())
    assert read_usage(out.path).stages["blocks"].tasks == 3


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(70))
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "c").write_bytes(bytes(5))
    assert measure_folder(tmp_path) == (75, 2)
