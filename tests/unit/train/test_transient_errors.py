"""A disk error does not prove that a checkpoint is damaged: it is retried, then raised, and nothing is renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from jprep.errors import InputError, MachineError
from jprep.io import retry
from jprep.io.safetensors_file import write_tensors
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.checkpoints import CheckpointStore
from jprep.train.run.data_lock import check_data
from jprep.train.run.directory import checkpoints_of, read_job
from jprep.train.run.events import read_events
from jprep.train.worker.session import Session
from jprep.train.worker.unsupervised import await_start
from tests.conftest import environment
from tests.fakes.small_run import in_thread, plan_of, small_run, weights

TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EACCES, errno.ENOSPC)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSES", (0.0, 0.0))


class Faults:
    """Makes the first `often` reads below a path fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.left, self.number = Path(), 0, errno.ESTALE
        for place, name in ((Path, "read_bytes"), (Path, "open"), (os, "scandir")):
            monkeypatch.setattr(place, name, self._failing(getattr(place, name)))

    def inject(self, path: Path, often: int, number: int) -> None:
        self.path, self.left, self.number = path, often, number

    def _failing(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(path: Path, *more: object, **named: object) -> object:
            if self.left and Path(path) == self.path:
                self.left -= 1
                raise OSError(self.number, os.strerror(self.number), str(path))
            return real(path, *more, **named)

        return call


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    found = Faults(monkeypatch)
    yield found
    found.left = 0


PLACES = {
    "COMMIT.json": lambda folder: folder / "step-00000020" / "COMMIT.json",
    "a tensor file": lambda folder: folder / "step-00000020" / "weights.npy",
    "the checkpoint's directory": lambda folder: folder / "step-00000020",
    "the list of checkpoints": lambda folder: folder,
}


def two_checkpoints(folder: Path) -> CheckpointStore:
    store = CheckpointStore(folder, "f" * 32, keep_last=9)
    for step in (10, 20):
        with store.saving(step) as partial:
            partial.joinpath("weights.npy").write_bytes(bytes([step]) * 100)
    return store


@pytest.mark.parametrize("number", TRANSIENT)
@pytest.mark.parametrize("place", PLACES)
def test_a_transient_error_is_retried_and_then_raised(place: str, number: int, tmp_path: Path, faults: Faults) -> None:
    store, path = two_checkpoints(tmp_path), PLACES[place](tmp_path)
    before = sorted(tmp_path.rglob("*"))

    def report(folder: Path, problem: str) -> None:
        raise AssertionError(f"{folder} was set aside: {problem}")

    faults.inject(path, 2, number)
    latest = store.latest(report)
    assert latest and latest.step == 20 and not faults.left
    faults.inject(path, 3, number)
    with pytest.raises(MachineError, match=os.strerror(number)) as caught:
        store.latest(report)
    assert str(path) == caught.value.where and "run the same command again" in caught.value.fix
    assert sorted(tmp_path.rglob("*")) == before


def test_the_printed_command_uses_the_previous_checkpoint(tmp_path: Path, faults: Faults) -> None:
    store = two_checkpoints(tmp_path)
    faults.inject(tmp_path / "step-00000020" / "weights.npy", 99, errno.EIO)
    with pytest.raises(MachineError) as caught:
        store.latest(print)
    subprocess.run(caught.value.fix.split("`")[1], shell=True, check=True)
    latest = store.latest(print)
    assert latest and latest.step == 10


def test_a_run_does_not_start_while_its_newest_checkpoint_cannot_be_read(tmp_path: Path, faults: Faults) -> None:
    run = small_run(tmp_path)
    assert supervise(run, plan_of(run)) == 0
    straight = weights(run)
    (run / "checkpoints" / "step-00000060" / "COMMIT.json").write_text("{")  # so that there is work left
    faults.inject(run / "checkpoints" / "step-00000050" / "COMMIT.json", 3, errno.ESTALE)
    with pytest.raises(MachineError, match="Stale"):
        supervise(run, plan_of(run))
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["damaged-step-00000060", "step-00000050"]
    assert supervise(run, plan_of(run)) == 0
    assert [event.step for event in read_events(run) if event.kind == "start"] == [0, 50]
    assert weights(run) == straight
    assert (run / "checkpoints" / "damaged-step-00000060").exists()


@pytest.mark.parametrize("asked", ["by --resume never", "by the printed command"])
@pytest.mark.parametrize("loss", ["all are damaged", "the directory is gone"])
def test_a_run_with_saved_steps_never_starts_at_0_unasked(loss: str, asked: str, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    assert supervise(run, plan_of(run)) == 0
    straight = weights(run)
    if loss == "all are damaged":
        for path in (run / "checkpoints").glob("*/weights.npy"):
            path.write_bytes(b"x")
    else:
        (run / "checkpoints").rename(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(InputError, match="has saved 60 steps") as caught:
            supervise(run, plan_of(run))
    if asked == "by --resume never":
        assert supervise(run, plan_of(run), resume_step=0) == 0
    else:
        subprocess.run(caught.value.fix.split("`")[1], shell=True, check=True, env=environment())
        assert supervise(run, plan_of(run)) == 0
    assert weights(run) == straight
    if loss == "all are damaged":
        kept = {path.name for path in (run / "checkpoints").glob("damaged-*")}
        assert kept == {"damaged-step-00000050", "damaged-step-00000060"}


def test_a_rewound_run_may_be_killed_before_it_saves(tmp_path: Path) -> None:
    run, said = small_run(tmp_path, max_restarts=0), list[str]()
    assert supervise(run, plan_of(run)) == 0
    assert supervise(run, plan_of(run, CRASH_AT="5"), resume_step=0, say=said.append) == 1
    assert supervise(run, plan_of(run, CRASH_AT="5"), say=said.append) == 1  # at 0 again, as was asked for before
    assert [event.step for event in read_events(run) if event.kind == "start"] == [0, 0, 0]
    assert len(list((run / "checkpoints").glob("aside-*"))) == 2


def test_events_that_cannot_be_read_just_now_do_not_end_a_run(tmp_path: Path, faults: Faults) -> None:
    run = small_run(tmp_path)
    faults.inject(run / "events.jsonl", 2, errno.ESTALE)
    assert supervise(run, plan_of(run)) == 0 and not faults.left


@pytest.mark.parametrize("name", ["job.json", "data.lock.json"])
def test_an_unreadable_file_of_a_run_does_not_count_as_damaged(name: str, tmp_path: Path, faults: Faults) -> None:
    run = small_run(tmp_path)
    faults.inject(run / name, 2, errno.ETIMEDOUT)
    check_data(run, read_job(run))
    faults.inject(run / name, 9, errno.ETIMEDOUT)
    with pytest.raises(MachineError, match="timed out"):
        check_data(run, read_job(run))


def test_tensors_that_cannot_be_read_just_now(tmp_path: Path, faults: Faults) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"w": (2,)}, lambda name: [np.ones(2, np.float32)])
    for often, error in ((2, None), (3, MachineError)):
        faults.inject(path, often, errno.EIO)
        with pytest.raises(error) if error else contextlib.nullcontext():
            assert CheckpointReader(tmp_path).weights["w"].tolist() == [1, 1]


def train_alone(run: Path, rank: int, world: int, steps: int) -> int:
    """Start a rank without a supervisor. Return the step that it resumes from."""
    session = Session(run, rank, world)
    for step, _ in session.batches():
        if session.due(step).checkpoint:
            with session.checkpoint(step) as folder:
                folder.joinpath(f"part-{rank}").write_text(str(step))
        if step == steps:
            break
    session.close()
    return session.start


def both_alone(run: Path, steps: int) -> list[int]:
    started: dict[int, int] = {}
    other = in_thread(lambda: started.update({1: train_alone(run, 1, 2, steps)}))  # it comes first, and waits
    started[0] = train_alone(run, 0, 2, steps)
    other.join(600)
    return [started[0], started[1]]


def test_without_a_supervisor_rank_0_decides_for_all(tmp_path: Path) -> None:
    run = small_run(tmp_path, log_every=10)
    assert both_alone(run, 20) == [0, 0]
    assert both_alone(run, 30) == [20, 20]
    (run / "checkpoints" / "step-00000030" / "part-1").write_text("x")
    assert both_alone(run, 40) == [20, 20]
    assert [event.step for event in read_events(run) if event.kind == "damaged"] == [30]
    assert len(list((run / "checkpoints").glob("damaged-*"))) == 1


def test_a_rank_without_rank_0_times_out(tmp_path: Path) -> None:
    run = small_run(tmp_path, log_every=10)
    both_alone(run, 10)  # what this start has decided is no longer true
    with pytest.raises(MachineError, match="rank 0 has not started"):
        await_start(run, 0.2)


def test_without_a_supervisor_the_printed_command_rewinds(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    train_alone(run, 0, 1, 10)
    (run / "checkpoints" / "step-00000010" / "part-0").write_text("x")
    with pytest.raises(InputError, match="has saved 10 steps") as caught:
        Session(run)
    subprocess.run(caught.value.fix.split("`")[1], shell=True, check=True, env=environment())
    assert train_alone(run, 0, 1, 10) == 0
    assert checkpoints_of(run, read_job(run)).committed()[-1].step == 10


def test_rewind_to_a_step_that_does_not_exist(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    command = [sys.executable, "-m", "jprep.train.run.rewind", str(run), "--step", "5"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2 and "there is no checkpoint of step 5" in done.stderr
