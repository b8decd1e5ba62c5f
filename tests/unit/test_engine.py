"""The engine with a small stage: order, receipts, refusals and failures."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.executors import local
from jprep.engine.executors.local import Local
from jprep.engine.fingerprint import differences, fingerprint, plain
from jprep.engine.runner import TaskRunner, list_outputs, refuse_mismatch, run_stage, sum_counts
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.errors import InputError, Interrupted, JprepError, MismatchError
from jprep.io.atomic import file_sha256, write_atomic


class Squares(Stage):
    """Writes the square of each number; a fault can be asked for at a number."""

    name = "squares"

    def __init__(self, numbers: list[int], fault: str = "", at: int = -1, salt: str = "") -> None:
        self._numbers, self._fault, self._at, self._salt = numbers, fault, at, salt
        self.closed = False

    def fields(self) -> dict[str, Any]:
        return {"salt": self._salt, "version": 1}

    def total(self) -> int:
        return len(self._numbers)

    def tasks(self) -> Iterator[Task]:
        for number in self._numbers:
            yield Task(f"{number:04}", number, weight=1, digest=f"d{number}{self._salt}")

    def run(self, task: Task, root: Path) -> Result:
        if task.payload == self._at:
            self._fail(root)
        path = f"out/{task.id}"
        write_atomic(root / path, str(task.payload**2).encode())
        return Result(
            [Output(path, 1, file_sha256(root / path))],
            {"z": task.payload, "a": 1, "none": 0},
            {"s/odd": task.payload % 2},
        )

    def _fail(self, root: Path) -> None:
        if self._fault == "error":
            raise InputError("it is damaged", where="byte 7", fix="repair it")
        if self._fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "exit":
            os._exit(7)
        if self._fault == "die once" and not (root / "died").exists():
            (root / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "print":
            print("noise on standard output", flush=True)
            os.write(1, b"noise on its descriptor\n")
        if self._fault == "bug":
            raise ZeroDivisionError("a bug")

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def workers_find_this_module(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(here))


class Watch:
    """Records its calls."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.fresh: list[bool] = []

    def begin(self, stage: str, total: int) -> None:
        self.begun.append((stage, total))

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        self.fresh.append(fresh)


def run(stage: Stage, root: Path, workers: int = 1, watch: Watch | None = None) -> list[Receipt]:
    return run_stage(stage, root, root / "state", Local(workers), watch or Watch())


def committed(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "state" / "receipts").iterdir())


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_receipts_come_in_the_order_of_the_tasks(workers: int, tmp_path: Path) -> None:
    watch = Watch()
    receipts = run(Squares([3, 1, 2]), tmp_path, workers, watch)
    assert [receipt.task for receipt in receipts] == ["0001", "0002", "0003"]
    assert [output.path for output in list_outputs(receipts)] == ["out/0001", "out/0002", "out/0003"]
    assert receipts[2].counts == {"a": 1, "z": 3}  # sorted, without zeros
    assert receipts[2].rejects == {"s/odd": 1} and receipts[1].rejects == {}
    assert (tmp_path / "out/0003").read_bytes() == b"9"
    assert watch.begun == [("squares", 3)] and watch.fresh == [True] * 3


@pytest.mark.parametrize("workers", [1, 2])
def test_committed_tasks_are_not_repeated(workers: int, tmp_path: Path) -> None:
    first = run(Squares([1, 2, 3]), tmp_path, workers)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    watch = Watch()
    assert run(Squares([1, 2, 3]), tmp_path, workers, watch) == first
    assert times == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert watch.fresh == [False] * 3


@pytest.mark.parametrize("lost", ["out/0002", "state/receipts/0002.json"])
def test_a_task_is_done_again_if_its_output_or_its_receipt_is_gone(lost: str, tmp_path: Path) -> None:
    first = run(Squares([1, 2, 3]), tmp_path)
    (tmp_path / lost).unlink()
    watch = Watch()
    assert run(Squares([1, 2, 3]), tmp_path, 2, watch) == first
    assert sorted(watch.fresh) == [False, False, True]


def test_other_work_is_refused_by_the_field_that_differs(tmp_path: Path) -> None:
    run(Squares([1]), tmp_path)
    with pytest.raises(MismatchError, match=r'salt: was "", is "new"') as caught:
        run(Squares([1], salt="new"), tmp_path)
    assert "--restart" in caught.value.fix and caught.value.exit_code == 2


def test_other_input_in_a_task_is_refused(tmp_path: Path) -> None:
    run(Squares([1]), tmp_path)
    receipt = tmp_path / "state/receipts/0001.json"
    receipt.write_bytes(encode_checksummed(decode_checksummed(receipt.read_bytes(), dict[str, Any]) | {"digest": "d2"}))
    with pytest.raises(MismatchError, match="the input has changed"):
        run(Squares([1]), tmp_path)


@pytest.mark.parametrize("damaged", ["out/0002", "state/receipts/0002.json"])
@pytest.mark.parametrize("data", [b"", b"5", b"{}", b"[]", b'{"task": "\xff"}'])
def test_a_task_whose_output_or_receipt_is_damaged_is_done_again(
    damaged: str, data: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = run(Squares([1, 2, 3]), tmp_path)
    (tmp_path / damaged).write_bytes(data)
    watch = Watch()
    assert run(Squares([1, 2, 3]), tmp_path, 1, watch) == first
    assert sorted(watch.fresh) == [False, False, True] and (tmp_path / "out/0002").read_bytes() == b"4"
    [said] = caplog.messages
    assert said.startswith(str(tmp_path / damaged)) and said.endswith(": the task that wrote it is done again")


def test_a_damaged_claim_is_written_again_unless_receipts_are_of_other_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, claim = run(Squares([1, 2]), tmp_path), tmp_path / "state/stage.json"
    sound = claim.read_bytes()
    claim.write_bytes(sound[:-5])
    with pytest.raises(MismatchError, match="different work"):
        run(Squares([1, 2], salt="new"), tmp_path)
    assert claim.read_bytes() == sound[:-5]  # the first command still finds its work
    assert run(Squares([1, 2]), tmp_path) == first and claim.read_bytes() == sound
    assert "stage.json is damaged" in caplog.text


def test_work_of_jprep_0_1_is_resumed(tmp_path: Path) -> None:
    first = run(Squares([1, 2]), tmp_path)
    for path in (tmp_path / "state").rglob("*.json"):
        held = decode_checksummed(path.read_bytes(), dict[str, Any])
        path.write_bytes(msgspec.json.encode(held))
    watch = Watch()
    assert run(Squares([1, 2]), tmp_path, 1, watch) == first and watch.fresh == [False, False]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_task_ends_the_run_and_keeps_finished_tasks(workers: int, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        run(Squares(list(range(40)), "error", at=3), tmp_path, workers)
    assert (caught.value.what, caught.value.where, caught.value.fix) == ("it is damaged", "byte 7", "repair it")
    assert committed(tmp_path)[:3] == ["0000", "0001", "0002"]
    assert "0003" not in committed(tmp_path) and len(committed(tmp_path)) < 40
    assert len(run(Squares(list(range(40))), tmp_path, workers)) == 40


@pytest.mark.parametrize(
    ("fault", "said", "fix"),
    [("die", r"\(signal SIGKILL\)", "fewer --workers"), ("exit", r"\(exit code 7\)", "output above")],
)
def test_a_worker_that_dies_twice_is_reported(fault: str, said: str, fix: str, tmp_path: Path) -> None:
    with pytest.raises(JprepError, match=f"a worker died twice {said}") as caught:
        run(Squares([1, 2, 3], fault, at=2), tmp_path, 2)
    assert caught.value.where == "task 0002" and fix in caught.value.fix


def test_a_worker_that_dies_once_is_replaced(tmp_path: Path) -> None:
    assert len(run(Squares([1, 2, 3], "die once", at=2), tmp_path, 2)) == 3


def test_a_bug_in_a_worker_comes_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(JprepError, match="ZeroDivisionError: a bug") as caught:
        run(Squares([1, 2, 3], "bug", at=2), tmp_path, 2)
    assert "task 0002" in caught.value.where and "Traceback" in caught.value.what


def test_a_stage_that_a_worker_cannot_import_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].partition(os.pathsep)[2])
    with pytest.raises(JprepError, match="a worker died twice"):
        run(Squares([1, 2, 3]), tmp_path, 2)
    assert "ModuleNotFoundError" in capfd.readouterr().err


def test_output_of_libraries_does_not_mix_with_the_answers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert len(run(Squares([1, 2, 3], "print", at=2), tmp_path, 2)) == 3
    out, err = capfd.readouterr()
    assert out == "" and "noise on standard output" in err and "noise on its descriptor" in err


@pytest.mark.parametrize("workers", [1, 2])
def test_stopping_is_asked_before_each_task(workers: int, tmp_path: Path) -> None:
    answers = iter([False] * 3)
    with pytest.raises(Interrupted):
        stopping = Local(workers, lambda: next(answers, True))
        run_stage(Squares(list(range(50))), tmp_path, tmp_path / "state", stopping, Watch())
    assert committed(tmp_path) == ["0000", "0001", "0002"]
    assert len(run(Squares(list(range(50))), tmp_path, workers)) == 50


def test_an_abandoned_run_ends_its_workers_and_starts_no_task(tmp_path: Path) -> None:
    job = TaskRunner(Squares(list(range(200))), tmp_path, tmp_path / "receipts", "f")
    running = Local(2).map(job, Squares(list(range(200))).tasks())
    next(running)
    running.close()  # type: ignore[attr-defined]
    done = sorted((tmp_path / "receipts").iterdir())
    time.sleep(0.5)
    assert sorted((tmp_path / "receipts").iterdir()) == done and len(done) < 200


def test_a_worker_that_starts_after_its_run_was_abandoned_does_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, abandoned, made = count(), threading.Event(), list[local._Worker]()

    class Late(local._Worker):
        """A worker; all but the first one start only when the run has been abandoned."""

        def __init__(self) -> None:
            if next(numbers):
                assert abandoned.wait(600)
            super().__init__()
            made.append(self)

    monkeypatch.setattr(local, "_Worker", Late)
    before = set(threading.enumerate())
    job = TaskRunner(Squares(list(range(200))), tmp_path, tmp_path / "receipts", "f")
    running = Local(2).map(job, Squares(list(range(200))).tasks())
    next(running)
    running.close()  # type: ignore[attr-defined]
    done = sorted((tmp_path / "receipts").iterdir())
    abandoned.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(600)
    assert sorted((tmp_path / "receipts").iterdir()) == done
    assert len(made) == 2 and all(worker._process.poll() is not None for worker in made)


def test_one_worker_closes_its_steps(tmp_path: Path) -> None:
    stage = Squares([1, 2])
    run(stage, tmp_path)
    assert stage.closed


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.", max_size=3), inner, max_size=3),
    max_leaves=8,
)


fields = st.dictionaries(st.text("abc", max_size=3), json, max_size=4)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(fields, fields)
def test_fingerprints_differ_where_fields_do(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    found = list(differences(ours, theirs))
    same = msgspec.json.encode(ours, order="sorted") == msgspec.json.encode(theirs, order="sorted")
    assert (fingerprint(ours) == fingerprint(theirs)) == same
    assert fingerprint(ours) == fingerprint(plain(dict(reversed(ours.items()))))
    assert not (same and found)


def test_differences_name_their_place() -> None:
    ours = {"a": [{"b": 1}], "c": "x" * 100, "new": 1}
    theirs = {"a": [{"b": 2}], "c": "y", "old": 2}
    assert list(differences(ours, theirs)) == [
        "a.0.b: was 2, is 1", f'c: was "y", is "{"x" * 78}…', "new: was null, is 1", "old: was 2, is null",
    ]  # fmt: skip
    with pytest.raises(MismatchError, match=r"\(and 1 more\)"):
        refuse_mismatch(ours, theirs, Path("place"))


def test_counts_add_up_sorted() -> None:
    assert list(sum_counts([{"b": 1, "a": 2}, {"b": 3}, {}]).items()) == [("a", 2), ("b", 4)]
