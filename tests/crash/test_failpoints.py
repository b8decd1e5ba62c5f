"""Killed, failing or out of disk at a failpoint: rerunning gives the same bytes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jprep.io import failpoints
from tests.conftest import digests
from tests.crash.conftest import Work
from tests.sampling import every

NAMES = [name for name in failpoints.NAMES if not name.startswith(("tokenizer.", "run.", "compare.", "judge."))]
LATER = {
    "output.opened": (4, 9, 17), "output.written": (3, 10, 18), "output.renamed": (2, 11, 19),
    "receipt.written": (3, 7),
    "inputs.recorded": (2, 3, 4, 7), "inputs.deleted": (2, 4, 6),
    "stage.begun": (2, 3, 4, 5), "stage.done": (2, 3, 4, 5), "corpus.sealing": (),
}  # fmt: skip
"""Later passings that a build with one worker surely comes to."""

BOTH = [(name, workers) for name in NAMES for workers in (1, 2)]
PASSINGS = [(name, nth) for name, passings in LATER.items() for nth in passings]
FULL = [("output.opened@9", 1), ("output.written@2", 1), ("output.opened@9", 2), ("output.written@2", 2)]


def assert_nothing_partial(folder: Path) -> None:
    """What stands under a final name is whole."""
    for path in folder.rglob("*"):
        if path.suffix in (".parquet", ".rejects"):
            pq.read_table(path)
        elif path.suffix == ".json":
            json.loads(path.read_bytes())


def assert_resumed(work: Work, workers: int, uninterrupted: dict[str, str]) -> None:
    """The same command goes on, and nothing shows that it was disturbed."""
    work.finish(workers)
    assert digests(work.folder) == uninterrupted


def test_every_failpoint_has_its_later_passings() -> None:
    assert LATER.keys() == set(NAMES)


@pytest.mark.parametrize(("name", "workers"), every(5, BOTH))
def test_killed_with_its_whole_group(name: str, workers: int, work: Work, uninterrupted: dict[str, str]) -> None:
    code, _ = work.disturb(f"{name}=kill", workers)
    assert code == -signal.SIGKILL
    assert not (work.folder / "corpus.json").exists()
    assert_nothing_partial(work.folder)
    assert_resumed(work, workers, uninterrupted)


@pytest.mark.parametrize(("name", "nth"), every(3, PASSINGS))
def test_killed_and_resumed_with_more_workers(name: str, nth: int, work: Work, uninterrupted: dict[str, str]) -> None:
    code, _ = work.disturb(f"{name}@{nth}")
    assert code == -signal.SIGKILL
    assert_nothing_partial(work.folder)
    assert_resumed(work, 2, uninterrupted)


@pytest.mark.parametrize("name", NAMES)
def test_one_process_dies(name: str, work: Work, uninterrupted: dict[str, str]) -> None:
    """With two workers it is the parent or, where only workers pass, one of them after the other."""
    code, said = work.disturb(f"{name}=die", 2)
    assert code == -signal.SIGKILL or (code == 1 and "a worker died twice (signal SIGKILL)" in said and "task" in said)
    assert_resumed(work, 2, uninterrupted)


def test_a_dead_worker_s_task_is_given_to_another(work: Work, tmp_path: Path, uninterrupted: dict[str, str]) -> None:
    # A worker dies at its seventh receipt, and another does its task, perhaps as its own seventh. The parent writes six
    # itself, of the stages of a single task.
    code, said = work.disturb("receipt.written@7=die", 2, DIED=str(tmp_path / "died"))
    assert code == 0 and "jprep:" not in said and (tmp_path / "died").exists()
    assert digests(work.folder) == uninterrupted


@pytest.mark.parametrize(("name", "workers"), [*((name, 1) for name in NAMES), ("receipt.written", 2)])
def test_an_error_is_reported_and_leaves_nothing_partial(
    name: str, workers: int, work: Work, uninterrupted: dict[str, str]
) -> None:
    code, said = work.disturb(f"{name}=raise", workers)
    assert code == 1
    assert "raised by a failpoint" in said
    assert_nothing_partial(work.folder)
    assert not list(work.folder.rglob("*.tmp-*"))
    assert_resumed(work, workers, uninterrupted)


@pytest.mark.parametrize(("failpoint", "workers"), every(3, FULL))
def test_a_full_disk_is_the_machine_s_fault(
    failpoint: str, workers: int, work: Work, uninterrupted: dict[str, str]
) -> None:
    code, said = work.disturb(f"{failpoint}=enospc", workers)
    assert code == 3
    assert "the disk is full" in said and str(work.folder) in said and "run the same command again" in said
    assert "Traceback" not in said
    assert_nothing_partial(work.folder)
    assert not list(work.folder.rglob("*.tmp-*"))
    assert_resumed(work, workers, uninterrupted)


def test_a_misspelt_failpoint_is_an_error(work: Work) -> None:
    code, said = work.disturb("output.opend")
    assert code == 1
    assert "no such failpoint" in said and "output.opened" in said
