"""A run is copied to a URL while it trains, and another machine resumes it from there."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from jprep.errors import ConfigError, JprepError, MachineError, MismatchError
from jprep.io.remote import list_objects, read_bytes, write_bytes
from jprep.io.remote import retry as retry_module
from jprep.train.job.config import CheckpointConfig, TrainConfig, check_train_config
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.commit import checkpoint_name
from jprep.train.run.directory import checkpoints_of, open_run, read_job
from jprep.train.run.events import metric_curve, read_events
from jprep.train.uploads import mirror as mirror_module
from jprep.train.uploads import ownership as ownership_module
from jprep.train.uploads.mirror import open_mirror
from jprep.train.uploads.mirrored_run import MirroredRun
from jprep.train.uploads.ownership import OWNER, Ownership
from tests.conftest import PATIENCE
from tests.fakes.small_dataset import SPLITS, lay_out
from tests.fakes.small_run import job_of, plan_of, weights

URL = "memory://bucket/run"
STEPS = 40


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give the file system in memory, empty; nothing waits for long."""
    monkeypatch.setattr(retry_module, "PAUSES", (0.0,))
    monkeypatch.setattr(mirror_module, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(mirror_module, "_LAST_PAUSES", (0.0,))
    monkeypatch.setattr(ownership_module, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(ownership_module, "_SETTLE_SECONDS", 0.05)
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


class Machine:
    """A machine with a disk of its own, on which the run's dataset is.

    Attributes:
        said: what the user was told.
    """

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.run, self.said, self._changes = folder / "run", [], changes
        self._dataset = lay_out(folder / "dataset", SPLITS)

    def train(
        self, resume_step: int | None = None, code: int = 0, mirror: str = URL, keep: int = 2, **env: str
    ) -> None:
        checkpoint = CheckpointConfig(every_steps=10, mirror=mirror, keep_last=keep)
        job = job_of(self._dataset, self.run, steps=STEPS, checkpoint=checkpoint, max_restarts=0, **self._changes)
        with open_mirror(self.run, job, self.said.append) as opened:
            open_run(self.run, job, self.said.append)
            plan = plan_of(self.run, **env)
            assert supervise(self.run, plan, resume_step=resume_step, say=self.said.append, mirror=opened) == code

    def result(self) -> tuple[str, Any, Any]:
        events = read_events(self.run)
        return weights(self.run, STEPS), metric_curve(events), metric_curve(events, "validation")

    def lose_disk(self) -> None:
        shutil.rmtree(self.run)


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    numbers = iter(range(9))

    def another(**changes: Any) -> Machine:
        folder = tmp_path / f"machine-{next(numbers)}"
        folder.mkdir()
        return Machine(folder, **changes)

    return another


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Any]:
    alone = Machine(tmp_path_factory.mktemp("alone"))
    alone.train(mirror="")
    return alone.result()


def steps_in_mirror() -> list[int]:
    return list(MirroredRun(URL).committed())


def test_the_mirror_has_what_the_run_keeps(machine: Callable[..., Machine], undisturbed: Any) -> None:
    one = machine()
    one.train()
    assert one.result() == undisturbed
    assert steps_in_mirror() == [30, 40]
    names = {"job.json", "data.lock.json", "env.json", "events.jsonl", "log.txt"}
    found = {name for name in list_objects(URL) if not name.startswith(("checkpoints/", "tensorboard/"))}
    assert found == names
    for name in (*names, f"checkpoints/{checkpoint_name(40)}/COMMIT.json"):
        assert read_bytes(f"{URL}/{name}") == (one.run / name).read_bytes()
    assert not (one.run / ".mirror").exists()


def test_another_machine_resumes_a_run_whose_disk_is_lost(machine: Callable[..., Machine], undisturbed: Any) -> None:
    first = machine()
    first.train(code=2, REFUSE_AT="27")
    assert steps_in_mirror() == [10, 20]
    other = machine()
    other.train()
    assert f"resuming the run from {URL}" in other.said
    assert other.result() == undisturbed
    assert steps_in_mirror() == [30, 40]
    starts = [event.step for event in read_events(other.run) if event.kind == "start"]
    assert starts == [0, 20]


@pytest.mark.backends
def test_a_machine_that_is_behind_its_mirror_catches_up(machine: Callable[..., Machine], undisturbed: Any) -> None:
    first, other = machine(), machine()
    first.train(code=2, REFUSE_AT="12")
    other.train(code=2, REFUSE_AT="32")
    first.train()
    assert first.result() == undisturbed
    assert [event.step for event in read_events(first.run) if event.kind == "start"] == [0, 10, 30]


def test_a_damaged_object_is_named_and_an_earlier_checkpoint_used(
    machine: Callable[..., Machine], undisturbed: Any, store: Any
) -> None:
    first, other = machine(), machine()
    first.train(code=2, REFUSE_AT="27")
    damaged = f"checkpoints/{checkpoint_name(20)}/weights.npy"
    data = bytearray(read_bytes(f"{URL}/{damaged}") or b"")
    data[-1] ^= 1
    write_bytes(bytes(data), f"{URL}/{damaged}")
    other.train()
    told = "\n".join(other.said)
    assert (
        f"step-00000020 of the mirror is damaged and was not used: this object was changed or damaged: {damaged}"
        in told
    )
    assert [event.step for event in read_events(other.run) if event.kind == "damaged"] == [20]
    assert other.result() == undisturbed
    other.lose_disk()
    other.train()  # what was damaged has been copied again
    assert other.result() == undisturbed and not [event for event in read_events(other.run) if event.kind == "restart"]


def test_no_valid_checkpoint_in_the_mirror_is_an_error(machine: Callable[..., Machine]) -> None:
    first, other = machine(), machine()
    first.train(code=2, REFUSE_AT="12")
    write_bytes(b"{}", f"{URL}/checkpoints/{checkpoint_name(10)}/COMMIT.json")
    with pytest.raises(JprepError, match="no valid checkpoint is left"):
        other.train()


def test_a_store_that_refuses_never_stops_the_training(
    machine: Callable[..., Machine], undisturbed: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machine()
    with monkeypatch.context() as broken:

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError("revoked")

        broken.setattr(type(store), "put_file", refuse)
        one.train()
    told = "\n".join(one.said)
    assert "the training continues: no permission to write in memory://bucket: revoked" in told
    assert told.count("revoked") == 1 and "run the same command again to complete it" in told
    assert one.result() == undisturbed and steps_in_mirror() == []
    one.train()  # nothing is left to train
    assert steps_in_mirror() == [30, 40]


def test_a_checkpoint_that_lacks_a_file_is_reported_and_does_not_delay_the_end(machine: Callable[..., Machine]) -> None:
    one = machine()
    one.train(mirror="")
    found = {checkpoint.step: checkpoint for checkpoint in checkpoints_of(one.run, read_job(one.run)).committed()}
    lost = found[30].folder / min(found[30].commit.files)
    lost.unlink()
    one.train()
    assert "the training continues: a file of this checkpoint is missing" in "\n".join(one.said)
    assert str(lost) in "\n".join(one.said)
    assert steps_in_mirror() == [40]


@pytest.mark.backends
def test_rewound_checkpoints_are_deleted_in_the_mirror(machine: Callable[..., Machine], undisturbed: Any) -> None:
    one = machine()
    one.train(code=2, REFUSE_AT="27")
    one.train(resume_step=10, code=2, REFUSE_AT="12")
    assert steps_in_mirror() == [10]
    one.lose_disk()
    one.train()
    assert one.result() == undisturbed


def test_the_mirror_of_another_job_is_refused_before_anything_is_downloaded(machine: Callable[..., Machine]) -> None:
    machine().train(code=2, REFUSE_AT="12")
    other = machine(seed=2)
    with pytest.raises(MismatchError, match="seed: was 1, is 2"):
        other.train()
    assert not list(other.run.rglob("*.json")) and not list(other.run.rglob("step-*"))
    assert OWNER not in list_objects(URL)


def test_two_machines_cannot_train_the_run_of_one_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership_module, "_MISSED", 6000)  # a renewal that comes late is no death
    said: list[str] = []
    first = Ownership(URL, tmp_path / "first", said.append)
    with pytest.raises(MachineError, match=r"another machine .* trains the run of this mirror"):
        Ownership(URL, tmp_path / "second", said.append)
    first.check()
    first.release()
    Ownership(URL, tmp_path / "second", said.append).release()
    assert OWNER not in list_objects(URL)


def test_a_dead_owner_is_replaced_and_notices_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    first = Ownership(URL, tmp_path / "first", said.append)
    first._ended.set()  # it renews no more, as if its machine had died
    first._thread.join()
    second = Ownership(URL, tmp_path / "second", said.append)
    assert "waiting" in said[0]
    with pytest.raises(MachineError, match="another machine"):
        first.check()
    second.remember()
    second._ended.set()
    second._thread.join()
    said.clear()
    third = Ownership(URL, tmp_path / "second", said.append)  # the same run directory: no need to wait
    assert not said
    third.release()


def test_an_owner_goes_on_after_an_unknown_error_of_the_store(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Ownership(URL, tmp_path / "owner", print)
    failed = threading.Event()

    def fail(*_: Any, **__: Any) -> None:
        failed.set()
        raise RuntimeError("no error of jprep or of a known library")

    with monkeypatch.context() as broken:
        broken.setattr(type(store), "cat_file", fail)
        assert failed.wait(PATIENCE)
    before = owner._owner.renewals
    deadline = time.monotonic() + PATIENCE
    while owner._owner.renewals == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert owner._owner.renewals > before
    owner.release()
    assert OWNER not in list_objects(URL)


@pytest.mark.parametrize("mirror", ["runs/mirror", "http://a/b", "file:///srv/x"])
def test_a_mirror_that_cannot_be_written_to_is_an_error_of_the_recipe(mirror: str) -> None:
    config = TrainConfig(steps=1, checkpoint=CheckpointConfig(mirror=mirror))
    with pytest.raises(ConfigError, match=r"train\.checkpoint\.mirror") as raised:
        check_train_config(config, "recipe.toml")
    assert raised.value.where == "recipe.toml" and "s3://" in raised.value.fix


def test_a_mirror_with_a_password_is_refused_without_showing_it() -> None:
    config = TrainConfig(steps=1, checkpoint=CheckpointConfig(mirror="ftp://me:secret@host/x"))
    with pytest.raises(ConfigError, match=r"train\.checkpoint\.mirror has a password") as raised:
        check_train_config(config, "recipe.toml")
    assert "secret" not in str(raised.value)


@pytest.mark.backends
def test_a_mirror_changes_no_fingerprint(machine: Callable[..., Machine]) -> None:
    one = machine()
    one.train(mirror="", code=2, REFUSE_AT="12")
    one.train()  # the run of yesterday, now with a mirror
    assert steps_in_mirror() == [30, 40]
    assert checkpoints_of(one.run, job_of(one._dataset, one.run)).committed()
