"""A worker of the executor `ray`, called as Ray calls it, without Ray."""

from __future__ import annotations

import gc
import pickle
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.engine.executors.choice import choose_executor, make_executor
from jprep.engine.executors.environment import describe_environment
from jprep.engine.executors.ray.task_worker import Answer, Assignment, TaskWorker
from jprep.engine.executors.shared_directory import confirm_probe, delete_probes
from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Receipt
from jprep.errors import ConfigError, InputError, JprepError, MachineError
from tests.fakes.cluster_stage import Numbers


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TaskWorker]:
    monkeypatch.chdir(tmp_path)
    before, thresholds = signal.getsignal(signal.SIGINT), gc.get_threshold()
    yield TaskWorker()
    signal.signal(signal.SIGINT, before)
    gc.set_threshold(*thresholds)


def assignment(folder: Path, **changes: Any) -> Assignment:
    (folder / "token").write_text("abc", encoding="utf-8")
    return Assignment(folder, folder / "token", "abc", describe_environment())._replace(**changes)


def begin(worker: TaskWorker, folder: Path, stage: Any = None, **changes: Any) -> Answer:
    job = TaskRunner(stage or Numbers(9), folder, folder / "receipts", "f")
    answer: Answer = pickle.loads(worker.begin(pickle.dumps(job), assignment(folder, **changes)))
    return answer


def refusal(worker: TaskWorker, folder: Path, **changes: Any) -> MachineError:
    error = begin(worker, folder, **changes).value
    assert isinstance(error, MachineError) and "node " in error.where and error.fix
    return error


def run(worker: TaskWorker, number: int) -> Answer:
    task = next(task for task in Numbers(9).tasks() if task.payload == number)
    answer: Answer = pickle.loads(worker.run(pickle.dumps(task)))
    return answer


def test_it_runs_tasks_and_closes_the_stage_before_the_next(worker: TaskWorker, tmp_path: Path) -> None:
    confirm_probe(begin(worker, tmp_path).value, "node x")
    receipt = run(worker, 3).value
    assert isinstance(receipt, Receipt) and receipt.counts == {"squares": 3}
    assert (tmp_path / "out/00003").read_bytes() == b"9" and (tmp_path / "receipts/00003.json").exists()
    assert not list(tmp_path.glob("closed-*"))
    begin(worker, tmp_path)
    assert len(list(tmp_path.glob("closed-*-n"))) == 1


def test_errors_and_warnings_of_tasks_are_answers(worker: TaskWorker, tmp_path: Path) -> None:
    begin(worker, tmp_path, Numbers(9, {1: "error", 2: "bug", 3: "warn"}))
    assert isinstance(run(worker, 1).value, InputError)
    bug = run(worker, 2).value
    assert type(bug) is JprepError and "ZeroDivisionError" in bug.what and bug.where == "task 00002"
    assert run(worker, 3).warnings == [("jprep.tests", "a strange record")]
    assert run(worker, 4).warnings == []


def test_a_node_with_other_versions_is_refused(worker: TaskWorker, tmp_path: Path) -> None:
    ours = describe_environment()
    assert ours["Python"] == f"{sys.version_info.major}.{sys.version_info.minor}" and "pyarrow" in ours
    error = refusal(worker, tmp_path, environment=ours | {"pyarrow": "1.0", "Python": "3.1", "nowhere": "1"})
    assert f"Python {ours['Python']} instead of 3.1, pyarrow {ours['pyarrow']} instead of 1.0" in error.what
    assert "nowhere" not in error.what


def test_libraries_without_a_part_in_outputs_are_not_compared() -> None:
    assert not describe_environment().keys() & {"pytest", "ruff", "ray", "matplotlib"}


def test_a_node_that_does_not_share_the_work_directory_is_refused(worker: TaskWorker, tmp_path: Path) -> None:
    error = refusal(worker, tmp_path, token=tmp_path / "elsewhere" / "token")
    assert "does not share the work directory" in error.what and str(tmp_path / "elsewhere") in error.where
    assert "another directory" in refusal(worker, tmp_path, content="other").what


def test_a_node_whose_writes_are_not_seen_is_refused(worker: TaskWorker, tmp_path: Path) -> None:
    answer = begin(worker, tmp_path)
    answer.value.unlink()
    with pytest.raises(MachineError, match="not seen") as caught:
        confirm_probe(answer.value, "node x")
    assert caught.value.where == f"{tmp_path} on node x"


def test_probes_that_nobody_waited_for_are_deleted(worker: TaskWorker, tmp_path: Path) -> None:
    """Those of workers that were being started when the stage ended."""
    answers = [begin(worker, tmp_path).value, begin(worker, tmp_path).value]
    (tmp_path / "token").unlink()
    delete_probes(tmp_path / "token")
    assert not any(answer.exists() for answer in answers)


def test_an_answer_after_the_end_of_the_stage_is_not_kept(
    worker: TaskWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def end_first(path: Path, *arguments: Any, **options: Any) -> int:
        if path.name.startswith("node"):
            (tmp_path / "token").unlink()
        return write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", end_first)
    answer = begin(worker, tmp_path).value
    assert answer.parent == tmp_path and not answer.exists()


def test_a_node_without_the_current_directory_is_refused(worker: TaskWorker, tmp_path: Path) -> None:
    assert "cannot enter the directory" in refusal(worker, tmp_path, here=tmp_path / "none").what


def test_a_node_that_lacks_a_package_is_refused(worker: TaskWorker, tmp_path: Path) -> None:
    call = worker.begin(b"cno_such_package\nStage\n.", assignment(tmp_path))
    error = pickle.loads(call).value
    assert isinstance(error, MachineError) and "no_such_package" in error.what


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MachineError) as caught:
        make_executor({"use": "ray"}, None, 2, lambda: False)
    assert caught.value.fix == "pip install 'jprep[ray]'"


@pytest.mark.parametrize("wrong", [{"cpus": 0}, {"attempts": 0}, {"max_workers": -1}, {"addres": "auto"}])
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        choose_executor({"use": "ray", **wrong})


def test_choosing_the_executor_does_not_import_ray() -> None:
    before = "ray" in sys.modules
    choose_executor({"use": "ray", "address": "auto"})
    assert ("ray" in sys.modules) == before
