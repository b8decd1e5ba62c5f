"""`delete_run`: what `jprep train --restart` deletes, and what it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.errors import ConfigError, MachineError
from jprep.io.lock import hold_lock
from jprep.train.launcher.start_command import StartCommand, write_command
from jprep.train.results import deletion
from jprep.train.results.deletion import check_restart, delete_run
from jprep.train.run.data_lock import DATA_LOCK
from jprep.train.run.directory import LOCK, checkpoints_of, open_run, read_job
from jprep.train.run.events import record_event
from tests.conftest import digests
from tests.fakes.small_run import job_of, small_run

USER = ("notes.json", "notes.txt", "checkpoints/step-of-mine/a", "hooks/old/a", "profile/mine.txt", "lists/a.samples")
OUTPUTS = ("export/export.json", "generator/config.json", "wandb/offline-run/a", "mlruns/0/a")
WRITTEN = (
    "plan.json", "env.json", "verified.json", "init.safetensors", "init.sha256", "heartbeat", "log.txt",
    "samples.jsonl", "push.json", "wandb.json", "service.stopped", "hooks/losses.py", "ranks/start",
    "tensorboard/events.out.tfevents.0000000000.jprep", "profile/steps-3-5/rank-0/summary.json", ".mirror/owner",
    "evaluations/step-00000010-0123456789ab.json",
    "checkpoints/damaged-2-step-00000010/a", "checkpoints/aside-step-00000020/a",
    "checkpoints/partial-step-00000030/a", "checkpoints/unreadable-step-00000005/a",
)  # fmt: skip


def _write(run: Path, *names: str) -> None:
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("a")


def _trained(folder: Path) -> Path:
    run = small_run(folder)
    record_event(run, "start", 0)
    write_command(run, StartCommand(("train",), str(folder)))
    with checkpoints_of(run, read_job(run)).saving(10) as saved:
        (saved / "weights").write_bytes(b"0")
    return run


def test_everything_that_training_wrote_is_deleted_and_all_else_is_kept(tmp_path: Path) -> None:
    run = _trained(tmp_path)
    _write(run, *WRITTEN, *USER, *OUTPUTS)
    delete_run(run)
    assert set(digests(run)) == {*USER, *OUTPUTS, LOCK, DATA_LOCK}


def test_another_run_can_begin_where_one_was_deleted(tmp_path: Path) -> None:
    run = _trained(tmp_path)
    (run / DATA_LOCK).unlink()
    delete_run(run)
    assert {path.name for path in run.iterdir()} == {LOCK, DATA_LOCK}
    _write(run, *USER)
    open_run(run, job_of(tmp_path / "dataset", run, seed=2))
    assert read_job(run).train.seed == 2 and not checkpoints_of(run, read_job(run)).committed()


def test_an_interrupted_deletion_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _trained(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(deletion.OutputDirectory, "remove_manifest", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            delete_run(run)
    assert (run / "job.json").exists() and not (run / "checkpoints").exists()
    delete_run(run)
    assert {path.name for path in run.iterdir()} == {LOCK, DATA_LOCK}


def test_a_run_that_is_training_is_not_deleted(tmp_path: Path) -> None:
    run = _trained(tmp_path)
    before = digests(run)
    with hold_lock(run / LOCK), pytest.raises(MachineError, match="another jprep"):
        delete_run(run)
    assert digests(run) == before


@pytest.mark.parametrize("name", ["corpus.json", "notes.txt"])
def test_a_directory_with_something_else_is_not_touched(tmp_path: Path, name: str) -> None:
    _write(tmp_path, name, "checkpoints/step-00000010/a")
    with pytest.raises(ConfigError):
        delete_run(tmp_path)
    assert set(digests(tmp_path)) == {name, "checkpoints/step-00000010/a"}


def test_a_directory_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    delete_run(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_the_run_of_a_mirror_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"s3://bucket/a/fold-1": b"{}"}
    monkeypatch.setattr(deletion.MirroredRun, "read", lambda mirror, _: stored.get(mirror.url))
    check_restart(["", "s3://bucket/a/fold-0"])
    with pytest.raises(ConfigError, match="--restart does not delete") as caught:
        check_restart(["s3://bucket/a/fold-0", "s3://bucket/a/fold-1"])
    assert caught.value.where == "s3://bucket/a/fold-1"
