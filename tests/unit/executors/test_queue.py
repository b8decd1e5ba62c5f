"""The queue of a stage: what is written is what is read, nothing else is, and shares do all of it once."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path

import msgspec
import pytest

from jprep.engine.queue.array_index import array_index, array_size
from jprep.engine.queue.failures import read_failures
from jprep.engine.queue.manifest import MANIFEST, QueueManifest, close_queue, read_queue
from jprep.engine.queue.reader import QueueReader
from jprep.engine.queue.share import Share, ShareResult
from jprep.engine.queue.unpickler import unpickle
from jprep.engine.queue.writer import publish_queue, write_queue
from jprep.engine.runner import TaskRunner
from jprep.errors import DamagedError, JprepError
from tests.fakes.numbers_stage import Numbers, admit_tests


@pytest.fixture(autouse=True)
def admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    admit_tests(monkeypatch)


def opened(root: Path, stage: Numbers) -> QueueReader:
    job = TaskRunner(stage, root, root / ".state/numbers/receipts", "mark")
    folder = root / ".state/numbers/queue"
    publish_queue(folder, write_queue(folder, job, stage.tasks()).manifest)
    return QueueReader(folder, manifest_of(folder))


def manifest_of(folder: Path) -> QueueManifest:
    found = read_queue(folder)
    assert found
    return found


def share(reader: QueueReader, index: int = 0, of: int = 1, workers: int = 1) -> ShareResult:
    return Share(reader, index, of, workers, lambda: False).run()


def test_shares_hold_each_task_once(tmp_path: Path) -> None:
    reader = opened(tmp_path, Numbers(1500))
    parts = [[task.id for task in reader.tasks(index, 7)] for index in range(7)]
    assert sorted(name for part in parts for name in part) == [task.id for task in Numbers(1500).tasks()]
    assert max(map(len, parts)) - min(map(len, parts)) <= 12
    assert {chunk.tasks for chunk in reader.manifest.chunks[:256]} == {1}


def test_a_queue_is_read_where_it_lies_now(tmp_path: Path) -> None:
    opened(tmp_path / "here", Numbers(3))
    (tmp_path / "here").rename(tmp_path / "there")
    folder = tmp_path / "there/.state/numbers/queue"
    assert share(QueueReader(folder, manifest_of(folder))).done == 3
    assert (tmp_path / "there/out/000002").read_bytes() == b"4"
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("name", ["tasks-*.bin", "stage-*.pickle", MANIFEST])
def test_damage_is_found(tmp_path: Path, name: str) -> None:
    reader = opened(tmp_path, Numbers(3))
    [path] = reader.folder.glob(name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError):
        share(QueueReader(reader.folder, manifest_of(reader.folder)))
    assert len(list(tmp_path.glob("out/*"))) < 3


class Hostile:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return self.call[0], tuple(self.call[1:])


CALLS = [(subprocess.check_output, ["touch", "it"]), (eval, "1"), (getattr, "x", "upper")]


@pytest.mark.parametrize("call", CALLS)
def test_foreign_objects_are_refused(call: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DamagedError, match="it names"):
        unpickle(pickle.dumps(Hostile(*call)), "here")
    assert not list(tmp_path.iterdir())


def test_what_a_module_imports_is_refused() -> None:
    with pytest.raises(DamagedError, match=r"it names jprep.engine.executors.local.subprocess.Popen"):
        unpickle(_named("subprocess.Popen"), "here")


def _named(name: str) -> bytes:
    """A pickle that loads `jprep.engine.executors.local.NAME`."""
    module = b"jprep.engine.executors.local"
    words = [b"\x8c" + bytes([len(word)]) + word for word in (module, name.encode())]
    return b"\x80\x04" + b"".join(words) + b"\x93."


@pytest.mark.parametrize("workers", [1, 2])
def test_failures_are_recorded_and_the_others_done(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPREP_JOB_LOG", "/logs/1.log")
    reader = opened(tmp_path, Numbers(9, {2: "input"}))
    result = share(reader, workers=workers)
    assert (result.done, len(result.failed), result.left, result.complete) == (8, 1, 0, False)
    failure = read_failures(reader.folder)["000002"]
    assert (failure.what, failure.code, failure.final, failure.log) == ("it is damaged", 4, True, "/logs/1.log")
    error = failure.error(others=2)
    assert "task 000002 (and 2 more tasks)" in error.where and "/logs/1.log" in error.where and error.exit_code == 4


def test_a_machine_without_the_folder_of_relative_paths(tmp_path: Path) -> None:
    """Only an error about a relative path without a file is its fault: another machine may have the file."""
    faults = ["read in/absent.txt", "input", "read /absent.txt", "read s3://store/a", "read ", "once"]
    stage = Numbers(12, {2 * number: fault for number, fault in enumerate(faults)})
    reader = opened(tmp_path, stage)
    elsewhere = msgspec.structs.replace(reader.manifest, folder="/nonexistent/project")
    share(QueueReader(reader.folder, elsewhere))
    first, *others = (failure for _, failure in sorted(read_failures(reader.folder).items()))
    assert "there is no such file, and this machine has no /nonexistent/project" in first.what
    assert (first.code, first.final, first.where) == (3, False, "in/absent.txt")
    assert [failure.code for failure in others] == [4, 2, 2, 2, 1]
    assert not any("this machine has no" in failure.what for failure in others)


def test_a_task_that_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    reader = opened(tmp_path, Numbers(9, {2: "die"}))
    result = share(reader, workers=2)
    assert (result.done, [failure.task for failure in result.failed]) == (8, ["000002"])


def test_many_failures_in_succession_end_a_share(tmp_path: Path) -> None:
    reader = opened(tmp_path, Numbers(30, dict.fromkeys(range(30), "input")))
    result = share(reader)
    assert (result.done, len(result.failed), result.left) == (0, 5, 25)


def test_finished_tasks_are_skipped(tmp_path: Path) -> None:
    reader = opened(tmp_path, Numbers(4))
    share(reader, 0, 2)
    written = (tmp_path / "out/000000").stat().st_mtime_ns
    assert share(reader).done == 4
    assert (tmp_path / "out/000000").stat().st_mtime_ns == written


def test_nothing_is_written_once_the_queue_is_closed(tmp_path: Path) -> None:
    reader = opened(tmp_path, Numbers(4, {0: "input"}))
    close_queue(reader.folder)
    result = share(reader)
    assert result.closed and result.complete and result.done == 0
    assert not (tmp_path / "out").exists() and not read_failures(reader.folder)


def test_stopping_leaves_the_rest(tmp_path: Path) -> None:
    reader, asked = opened(tmp_path, Numbers(9)), iter([False] * 3)
    result = Share(reader, 0, 1, 1, lambda: next(asked, True)).run()
    assert result.interrupted and result.done == 3 and result.left == 6


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = opened(tmp_path, Numbers(1))
    monkeypatch.setattr("jprep.engine.queue.manifest.version", lambda name: "9.9")
    with pytest.raises(JprepError, match="and this is jprep 9"):
        read_queue(reader.folder)


@pytest.mark.parametrize(
    ("variables", "index", "size"),
    [
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "8"}, 3, 8),
        ({"PBS_ARRAY_INDEX": "0"}, 0, None),
        ({"SGE_TASK_ID": "1", "SGE_TASK_LAST": "4"}, 0, 4),
        ({"SGE_TASK_ID": "undefined"}, None, None),
        ({"JOB_COMPLETION_INDEX": "5"}, 5, None),
        ({}, None, None),
    ],
)
def test_variables_of_arrays(variables: dict[str, str], index: int | None, size: int | None) -> None:
    assert (array_index(variables), array_size(variables)) == (index, size)
