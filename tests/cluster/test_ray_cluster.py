"""The executor `ray` on a real cluster of three nodes on this machine."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.engine.executors.ray.executor import Ray, RayOptions
from jprep.engine.runner import SilentProgress, run_stage
from jprep.engine.stage import Receipt
from jprep.errors import ConfigError, InputError, Interrupted, JprepError, MachineError
from tests.fakes.cluster_stage import Numbers
from tests.fakes.ray_cluster import NODES, RayCluster

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jprep[ray]'")
pytestmark = [pytest.mark.backends, pytest.mark.xdist_group("ray")]


class Executors:
    """Runs stages below the current directory, and keeps the executor for the next test with the same options.

    There is one at a time: idle workers keep the cores of the nodes.

    Args:
        address: address of the cluster.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._options: dict[str, Any] = {}
        self._kept: Ray | None = None
        self._stopping = _never

    def run(self, stage: Numbers, stopping: Callable[[], bool] | None = None, **options: Any) -> list[Receipt]:
        if self._kept is None or self._options != options:
            self.close()
            chosen = RayOptions(address=self._address, **options)
            self._kept, self._options = Ray(1, lambda: self._stopping(), chosen), options
        self._stopping = stopping or _never
        return run_stage(stage, Path("root"), Path("root") / stage.name, self._kept, SilentProgress())

    def close(self) -> None:
        if self._kept:
            self._kept.close()
        self._kept = None


def _never() -> bool:
    return False


@pytest.fixture(scope="module")
def executors(ray_cluster: RayCluster) -> Iterator[Executors]:
    with contextlib.closing(Executors(ray_cluster.address)) as kept:
        yield kept


@pytest.fixture
def run(executors: Executors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Receipt]]:
    """Runs stages in `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    Path("root").mkdir()
    return executors.run


def begun() -> list[str]:
    return sorted(line.split()[0] for line in Path("root/begun").read_text().splitlines())


def test_each_task_runs_once_and_receipts_are_in_order(run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    receipts = run(Numbers(40, {0: "wait"}))  # one worker may have done all before the next has started
    assert [receipt.task for receipt in receipts] == begun() == [f"{number:05}" for number in range(40)]
    assert receipts[3].counts == {"squares": 3} and receipts[3].rejects == {"n/odd": 1}
    assert Path("root/out/00007").read_bytes() == b"49"
    assert len({line.split()[1] for line in Path("root/begun").read_text().splitlines()}) > 1
    assert run(Numbers(40)) == receipts and len(begun()) == 40
    assert capfd.readouterr() == ("", "")
    assert not [path.name for path in Path("root/n").iterdir() if path.name not in ("receipts", "stage.json", "usage")]


@pytest.mark.soak
def test_workers_are_kept_between_stages_and_close_what_a_stage_opened(run: Any) -> None:
    run(Numbers(12, name="a"))
    run(Numbers(12, name="b"))
    closed = {path.name for path in Path().glob("closed-*-a")}
    workers = {line.split()[1] for line in Path("root/begun").read_text().splitlines()}
    assert len(workers) <= NODES and closed


def test_tasks_are_created_as_workers_need_them(run: Any) -> None:
    stage = Numbers(500, {3: "error"})
    with pytest.raises(InputError):
        run(stage)
    finished = len(list(Path("root/n/receipts").iterdir()))  # how many depends on how long the error takes to arrive
    assert stage.created <= finished + NODES


def test_an_error_of_a_task_names_its_node_and_keeps_finished_tasks(run: Any) -> None:
    with pytest.raises(InputError, match="it is damaged") as caught:
        run(Numbers(6, {2: "error"}))
    assert caught.value.where.startswith("byte 7, on node ") and caught.value.fix == "repair it"
    assert "00002" not in [path.stem for path in Path("root/n/receipts").iterdir()]
    assert len(run(Numbers(6))) == 6 and begun().count("00001") == 1


def test_a_bug_in_a_task_is_shown_with_its_traceback(run: Any) -> None:
    with pytest.raises(JprepError, match=r"ZeroDivisionError: a bug(.|\n)*cluster_stage.py"):
        run(Numbers(1, {0: "bug"}))


@pytest.mark.soak
def test_warnings_of_workers_are_logged_here_and_their_output_is_not_shown(
    run: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    run(Numbers(3, {1: "warn"}))
    assert [record.getMessage() for record in caplog.records if record.name == "jprep.tests"] == ["a strange record"]
    assert "noise" not in capfd.readouterr().out


def test_a_task_whose_worker_dies_is_begun_again(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert len(run(Numbers(8, {4: "die once"}))) == 8
    assert begun().count("00004") == 2 and len(begun()) == 9
    assert any("task 00004 was lost" in record.getMessage() for record in caplog.records)


@pytest.mark.soak
def test_a_task_that_finished_before_its_worker_died_is_not_repeated(run: Any) -> None:
    receipts = run(Numbers(4), runtime_env={"env_vars": {"JPREP_FAILPOINT": "receipt.written@2=die"}}, attempts=1)
    assert begun() == [receipt.task for receipt in receipts] and len(receipts) == 4


def test_a_worker_whose_command_was_killed_writes_nothing_once_the_next_one_has_begun(run: Any) -> None:
    with pytest.raises(MachineError, match="the command that began this task has ended"):
        run(Numbers(1, {0: "forgotten"}))
    assert not list(Path("root").glob("**/00000*"))


def test_a_task_that_always_kills_its_worker_is_named(run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JprepError, match="lost 2 times") as caught:
        run(Numbers(4, {1: "die"}), attempts=2)
    assert caught.value.where == "task 00001" and "memory" in caught.value.fix
    assert begun().count("00001") == 2
    assert capfd.readouterr().out == ""  # Ray prints what happens to its processes, unless it is stopped


def test_no_new_task_begins_after_a_request_to_stop(run: Any) -> None:
    with pytest.raises(Interrupted):
        run(Numbers(50, seconds=0.1), lambda: Path("root/begun").exists())
    started = begun()
    assert 1 <= len(started) <= NODES
    assert sorted(path.stem for path in Path("root/n/receipts").iterdir()) == started


def test_a_worker_that_no_node_has_room_for_is_refused(run: Any) -> None:
    with pytest.raises(ConfigError, match="no node of the cluster has 64 cores"):
        run(Numbers(1), cpus=64)


def test_a_node_with_other_versions_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jprep.engine.executors.ray.stage_run.describe_environment", lambda: {"pyarrow": "1.0"})
    with pytest.raises(MachineError, match=r"other versions: pyarrow .* instead of 1\.0") as caught:
        run(Numbers(1))
    assert caught.value.where.startswith("node ")


@pytest.mark.soak
def test_signal_handlers_of_the_command_stay(run: Any) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    run(Numbers(1), max_workers=1)  # a new connection
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_killed_node_loses_nothing(run: Any, ray_cluster: RayCluster) -> None:
    killed = []

    def kill_once() -> bool:
        if not killed and Path("root/begun").exists():
            killed.append(int(Path("root/begun").read_text().splitlines()[-1].split()[1]))
            ray_cluster.kill_node_of(killed[0])
            ray_cluster.add_node()
        return False

    receipts = run(Numbers(12, seconds=0.5), kill_once)
    assert killed and len(receipts) == 12
    assert set(begun()) == {receipt.task for receipt in receipts}


def test_without_a_cluster_the_address_is_named(
    executors: Executors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executors.close()  # a process uses the connection that it has
    monkeypatch.chdir(tmp_path)
    executor = Ray(1, lambda: False, RayOptions(address="127.0.0.1:1"))
    with pytest.raises(MachineError, match="no connection to Ray") as caught:
        run_stage(Numbers(1), tmp_path, tmp_path / "n", executor, SilentProgress())
    assert "127.0.0.1:1" in caught.value.where
