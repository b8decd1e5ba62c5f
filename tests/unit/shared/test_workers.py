"""Workers that are registered in an output directory, and temporary files that they have there."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS
from jprep.engine.runner import DRIVER, TaskRunner
from jprep.engine.stage import Output, Result, Task
from jprep.errors import MachineError
from jprep.io.atomic import atomic_path, temporary_name, write_atomic
from jprep.io.lock import hold_lock
from jprep.io.shared import ownership
from jprep.io.shared.file_systems import LOCKS_VARIABLE
from jprep.io.shared.heartbeats import BeatFile, Timing
from jprep.io.shared.host import Holder
from jprep.io.shared.lease import LeaseWatch, evict, lease_folder
from jprep.io.shared.ownership import OwnershipFile, adopted, ownership_files
from jprep.io.shared.workers import WORKERS, Worker, WorkerWatch, registered_worker

TEMPORARY = "documents/part.parquet.tmp-0123456789abcdef-0"


@pytest.fixture
def corpus(tmp_path: Path) -> OutputDirectory:
    """An unfinished corpus with a temporary file of some worker."""
    out = OutputDirectory(tmp_path / "corpus", CORPUS, files=("documents/*.parquet",))
    with out.claim():
        write_atomic(out.state / "documents" / "stage.json", b"{}")
        (out.path / "documents").mkdir()
        (out.path / TEMPORARY).write_bytes(b"half")
    return out


def register_elsewhere(out: OutputDirectory) -> BeatFile:
    """Register a worker of another host."""
    holder = Holder(session="f" * 16, host="elsewhere", name="node", process=os.getpid(), flock="none")
    file = BeatFile(out.state / WORKERS / holder.session, holder)
    file.path.parent.mkdir(exist_ok=True)
    file.create()
    return file


def fresh(out: OutputDirectory) -> OutputDirectory:
    return OutputDirectory(out.path, CORPUS, files=("documents/*.parquet",))


def test_without_workers_temporary_files_are_deleted(corpus: OutputDirectory) -> None:
    with corpus.claim():
        assert not (corpus.path / TEMPORARY).exists()


def test_temporary_files_of_workers_stay_until_the_output_is_sealed(corpus: OutputDirectory) -> None:
    register_elsewhere(corpus)
    out = fresh(corpus)
    with out.claim():
        assert (out.path / TEMPORARY).exists()
        assert [worker.name for worker in out.live_workers()] == ["node"]
        out.seal({"name": "corpus"}, keep=())
        assert not (out.path / TEMPORARY).exists()
        assert not (out.state / WORKERS).exists()
        out.clean()
    assert sorted(path.name for path in out.state.iterdir()) == ["LOCK"]


def test_the_next_command_ends_workers_of_a_killed_one_that_are_not_registered(corpus: OutputDirectory) -> None:
    """Others are registered and may be alive, so that temporary files stay; those of Ray commit nothing."""
    register_elsewhere(corpus)
    token = temporary_name(corpus.state / "documents" / DRIVER)
    token.write_bytes(b"")
    with adopted((OwnershipFile(token.parent, token.name, command=True),)):
        write_atomic(corpus.path / "documents" / "one.parquet", b"1")
        with fresh(corpus).claim():
            pass
        assert (corpus.path / TEMPORARY).exists()
        with pytest.raises(MachineError, match="the command that began this task has ended") as caught:
            write_atomic(corpus.path / "documents" / "two.parquet", b"2")
    assert caught.value.where == str(corpus.path) and not (corpus.path / "documents/two.parquet").exists()


def test_a_worker_works_while_the_directory_is_claimed_and_afterwards(corpus: OutputDirectory) -> None:
    with registered_worker(corpus.state / WORKERS):
        with fresh(corpus).claim():
            write_atomic(corpus.path / "documents" / "one.parquet", b"1")
        write_atomic(corpus.path / "documents" / "two.parquet", b"2")
    assert not (corpus.state / WORKERS).exists()


@contextlib.contextmanager
def in_another_process() -> Iterator[None]:
    """Forget what this process holds, for the time of the block."""
    mine = [*ownership._owned]
    ownership._owned.clear()
    yield
    ownership._owned[:] = mine


@pytest.mark.parametrize("end", ["restart", "seal", "clean"])
def test_a_worker_commits_nothing_after_the_directory_has_changed(end: str, corpus: OutputDirectory) -> None:
    target = corpus.path / "documents" / "late.parquet"
    refused = pytest.raises(MachineError, match="finished or restarted by another process")
    with registered_worker(corpus.state / WORKERS), refused, atomic_path(target) as temporary:
        with in_another_process():
            other = fresh(corpus)
            with other.claim():
                other.seal({}, keep=()) if end == "seal" else getattr(other, end)()
        temporary.parent.mkdir(exist_ok=True)
        temporary.write_bytes(b"late")
    assert not target.exists()


def test_a_killed_worker_of_this_host_is_dead_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from jprep.io.shared.workers import Worker\n"
        "Worker(Path(sys.argv[1])); print('ready', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / WORKERS], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline()
    watch = WorkerWatch(tmp_path / WORKERS)
    assert [worker.process for worker in watch.alive()] == [process.pid]
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended; nobody has waited for it yet
    assert watch.alive() == [] and list((tmp_path / WORKERS).iterdir()) == []
    process.wait()


def test_a_worker_of_another_host_is_dead_once_it_shows_no_changes(corpus: OutputDirectory) -> None:
    now = [0.0]
    file = register_elsewhere(corpus)
    watch = WorkerWatch(corpus.state / WORKERS, Timing(5, 40, 120), lambda: now[0])
    assert watch.alive()
    now[0] = 119
    file.change()
    assert watch.alive()
    now[0] = 238
    assert watch.alive()
    now[0] = 240
    assert watch.alive() == []
    assert not file.path.exists()


def test_a_registration_that_was_deleted_is_not_written_again(tmp_path: Path) -> None:
    worker = Worker(tmp_path / WORKERS, Timing(beat=0.01))
    WorkerWatch(tmp_path / WORKERS).end_all()
    with pytest.raises(MachineError):
        worker.check()
    worker.close()
    assert list(tmp_path.iterdir()) == []


def test_transient_errors_do_not_end_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with registered_worker(tmp_path / WORKERS) as worker:
        opened = os.open

        def fail(path: object, *arguments: int) -> int:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "open", fail)
        worker.check()
        monkeypatch.setattr(os, "open", opened)


class Writing:
    """A stage of one task, during which another host may take over the directory."""

    def __init__(self, take_over: Path | None) -> None:
        self._take_over = take_over

    def run(self, task: Task, root: Path) -> Result:
        if self._take_over and (seen := LeaseWatch(self._take_over).look()):
            evict(lease_folder(self._take_over), seen.name)
        write_atomic(root / "output", b"1")
        return Result()

    def consumes(self, task: Task) -> list[tuple[Output, list[str]]]:
        return []


@pytest.mark.parametrize("taken", [False, True])
def test_tasks_in_other_processes_check_what_the_first_one_holds(
    taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOCKS_VARIABLE, "host")
    lock, root = tmp_path / "LOCK", tmp_path / "out"
    with hold_lock(lock):
        job = TaskRunner(Writing(lock if taken else None), root, root, "", held=ownership_files())
        refused = pytest.raises(MachineError, match="another process has taken over")
        with in_another_process(), refused if taken else contextlib.nullcontext():
            job(Task("one", None))
    assert root.exists() == (not taken)
