"""A checkpoint is complete or does not exist."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError, JprepError, MachineError, MismatchError
from jprep.train.run import checkpoints as module
from jprep.train.run.checkpoints import CheckpointStore, Rank
from tests.fakes.small_run import in_thread

JOB = "f" * 32


def save(store: CheckpointStore, step: int, loss: float | None = None) -> None:
    with store.saving(step, loss) as folder:
        folder.joinpath("weights.bin").write_bytes(bytes([step % 256]) * 100)
        folder.joinpath("more").mkdir()
        folder.joinpath("more", "state.bin").write_bytes(b"state")


def steps(store: CheckpointStore) -> list[int]:
    return [one.step for one in store.committed()]


def nothing_damaged(folder: Path, problem: str) -> None:
    raise AssertionError(problem)


def test_committed_and_checked(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB)
    assert store.latest(nothing_damaged) is None
    save(store, 10)
    save(store, 20, 1.5)
    latest = store.latest(nothing_damaged)
    assert latest and latest.step == 20 and latest.folder.name == "step-00000020"
    commit = json.loads((latest.folder / "COMMIT.json").read_bytes())
    assert commit["loss"] == 1.5 and commit["job"] == JOB
    assert commit["files"]["more/state.bin"]["bytes"] == 5
    with pytest.raises(MismatchError, match="belongs to another job"):
        CheckpointStore(tmp_path, "0" * 32).latest(nothing_damaged)


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7), what=st.sampled_from(["weights.bin", "COMMIT.json"]))
def test_after_a_flipped_bit_the_previous_checkpoint_is_used(
    place: int, bit: int, what: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    store, reported = CheckpointStore(folder, JOB), []
    save(store, 1, 2.0)
    save(store, 2, 1.0)
    path = folder / "step-00000002" / what
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(data)
    latest = store.latest(lambda place, problem: reported.append(place.name))
    if reported:
        assert latest and latest.step == 1 and reported == ["damaged-step-00000002"]
    else:  # white space of COMMIT became other white space
        assert what == "COMMIT.json" and latest and latest.commit.loss == 1.0
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["missing", "added", "short", "torn commit", "no commit", "wrong step"])
def test_damaged_checkpoints_are_set_aside_not_deleted(kind: str, tmp_path: Path) -> None:
    store, reported = CheckpointStore(tmp_path, JOB, keep_last=5), []
    before = {"damaged-step-00000001", "damaged-step-00000003", "damaged-2-step-00000003"}
    for name in before:
        (tmp_path / name).mkdir()
    for step in (1, 2, 3):
        save(store, step)
    newest = tmp_path / "step-00000003"
    if kind == "missing":
        (newest / "more" / "state.bin").unlink()
    elif kind == "added":
        (newest / "evil.bin").touch()
    elif kind == "short":
        (newest / "weights.bin").write_bytes(b"\3" * 99)
    elif kind == "torn commit":
        (newest / "COMMIT.json").write_bytes((newest / "COMMIT.json").read_bytes()[:50])
    elif kind == "no commit":
        (newest / "COMMIT.json").unlink()
    else:
        newest.rename(tmp_path / "step-00000009")
    latest = store.latest(lambda folder, problem: reported.append(problem))
    assert latest and latest.step == 2 and len(reported) == 1
    [new] = {path.name for path in tmp_path.glob("damaged-*")} - before
    assert new == ("damaged-step-00000009" if kind == "wrong step" else "damaged-3-step-00000003")


def test_incomplete_folders_of_a_killed_run_are_ignored_and_deleted(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB)
    save(store, 1)
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "partial-step-00000003")
    assert steps(store) == [1]
    store.clean()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_the_newest_and_the_best_checkpoints_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB, keep_last=2, keep_best=2)
    for step, loss in enumerate([9.0, 2.0, 5.0, None, 2.0, 7.0, float("nan"), 8.0], start=1):
        save(store, step, loss)
    assert steps(store) == [2, 5, 7, 8]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{n:08d}" for n in (2, 5, 7, 8)]


def test_at_least_one_is_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB, keep_last=0)
    save(store, 1)
    save(store, 2)
    assert steps(store) == [2]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), RuntimeError("stream failed writing file")])
def test_a_full_disk(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path, JOB)
    save(store, 1)
    monkeypatch.setattr(module, "_SPARE", 1 << 80)  # the disk has less than that
    with pytest.raises(MachineError, match="the disk is full"), store.saving(2) as folder:
        folder.joinpath("weights.bin").write_bytes(b"begun")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert store.latest(nothing_damaged)


def test_other_errors_are_not_translated(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB)
    with pytest.raises(KeyError), store.saving(2):
        raise KeyError("x")
    with pytest.raises(JprepError, match="empty checkpoint"), store.saving(2):
        pass
    assert list(tmp_path.iterdir()) == []


def test_saving_a_step_again_keeps_the_existing_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB)
    save(store, 1)
    before = (tmp_path / "step-00000001").stat().st_ino
    save(store, 1)
    assert (tmp_path / "step-00000001").stat().st_ino == before and len(list(tmp_path.iterdir())) == 1


def test_rewinding(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB, keep_last=9)
    for step in (1, 2, 3):
        save(store, step)
    with pytest.raises(ConfigError) as caught:
        store.rewind(4)
    assert caught.value.fix == "checkpoints: 1, 2, 3"
    store.rewind(2)
    assert steps(store) == [1, 2] and (tmp_path / "aside-step-00000003").exists()
    save(store, 3)
    assert not list(tmp_path.glob("aside-*"))  # the run is as far as it was
    store.rewind(0)
    assert steps(store) == []


def test_set_aside_checkpoints_are_deleted_after_a_later_one(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB, keep_last=1, keep_best=1)

    def aside() -> list[int]:
        return sorted(int(path.name[-2:]) for path in tmp_path.glob("aside-*"))

    for step in (20, 40):
        save(store, step, step / 100)
    for step in (9, 8, 7):
        store.rewind(0)
        save(store, step, 1.0)
    assert aside() == [8, 9, 20, 40]
    store.rewind(0)
    save(store, 8, 1.0)
    assert aside() == [9, 20, 40]
    save(store, 9, 1.0)
    save(store, 30)
    assert aside() == [40]
    save(store, 41)
    assert aside() == [] and steps(store) == [8, 41]


def test_several_ranks_write_one_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, JOB)

    def write(rank: int) -> None:
        with CheckpointStore(tmp_path, JOB).saving(1, rank=Rank(rank, 3)) as folder:
            folder.joinpath(f"part-{rank}.bin").write_bytes(bytes([rank]) * 1000)

    others = [in_thread(lambda rank=rank: write(rank)) for rank in (2, 1)]  # type: ignore[misc]
    write(0)
    for other in others:
        other.join()
    latest = store.latest(nothing_damaged)
    assert latest and sorted(latest.commit.files) == ["part-0.bin", "part-1.bin", "part-2.bin"]


def test_a_rank_that_fails_or_never_finishes(tmp_path: Path) -> None:
    def fail() -> None:
        with pytest.raises(MachineError), CheckpointStore(tmp_path, JOB).saving(1, rank=Rank(1, 2)):
            raise OSError(errno.ENOSPC, "full")

    thread = in_thread(fail)
    both = CheckpointStore(tmp_path, JOB).saving(1, rank=Rank(0, 2))
    with pytest.raises(JprepError, match="rank 1 could not save"), both as folder:
        folder.joinpath("part-0.bin").touch()
    thread.join()
    both = CheckpointStore(tmp_path, JOB).saving(2, rank=Rank(0, 2, 0.05))
    with pytest.raises(MachineError, match="rank 1 did not save"), both as folder:
        folder.joinpath("part-0.bin").touch()
    assert list(tmp_path.glob("step-*")) == []
