"""A worker that runs out of memory is not restarted in vain, and the message names the micro-batch that would fit."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.io.machine import memory
from jprep.train.backend import MicroBatchEstimate, Plan, Target
from jprep.train.launcher import memory_watch
from jprep.train.launcher.memory_watch import MemoryWatch
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.directory import read_job
from jprep.train.run.events import read_events, record_event
from jprep.train.worker import cli, out_of_memory
from jprep.train.worker.out_of_memory import is_out_of_memory, memory_advice
from tests.fakes.small_run import plan_of, small_run

GB = 10**9
TORCH = "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB."
JAX = "RESOURCE_EXHAUSTED: Out of memory allocating 1099511627776 bytes."
SMALLER = (MicroBatchEstimate(4, 4 * GB), MicroBatchEstimate(2, 2 * GB), MicroBatchEstimate(1, GB))


def planned(run: Path, room: int = 64 * GB, **env: str) -> Plan:
    target = Target(name="this machine", kind="cpu", memory=room, host_memory=room, on_host=True)
    return msgspec.structs.replace(plan_of(run, **env), memory=8 * GB, target=target, smaller=SMALLER)


def ended(run: Path, **env: str) -> tuple[int, str, list[int]]:
    """Return the exit code, the messages to the user, and the steps that workers started from."""
    said: list[str] = []
    code = supervise(run, planned(run, **env), say=said.append, backoff=0.01)
    return code, "\n".join(said), [event.step for event in read_events(run) if event.kind == "start"]


@pytest.fixture(autouse=True)
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's count of killed processes, on a machine with much memory."""
    path = tmp_path / "memory.events"
    path.write_text("low 0\noom_kill 3\n")
    monkeypatch.setattr(memory_watch, "_COUNTERS", (path,))
    monkeypatch.setattr(out_of_memory, "memory", lambda: 64 * GB)
    return path


@pytest.mark.parametrize("how", [TORCH, JAX, CUDA, "numpy", "python", "system"])
def test_a_worker_without_memory_is_not_restarted(how: str, tmp_path: Path) -> None:
    code, said, starts = ended(small_run(tmp_path), MEMORY_AT="7", MEMORY=how)
    assert code == 3 and starts == [0]
    assert "out of memory at step 7" in said and "--set train.backend.numpy.micro_batch=4" in said
    assert "4.00 GB per process instead of 8.00 GB" in said


@pytest.mark.parametrize(("how", "words"), [("kernel", "the kernel killed a worker"), ("abort", "std::bad_alloc")])
def test_out_of_memory_is_detected_without_a_report(how: str, words: str, tmp_path: Path, counter: Path) -> None:
    code, said, starts = ended(small_run(tmp_path), MEMORY_AT="7", MEMORY=how, COUNTER=str(counter), PAUSE="0.3")
    assert code == 3 and starts == [0]
    assert words in said and "--set train.backend.numpy.micro_batch=4" in said
    assert "main memory is full" in said and (how == "abort" or re.search(r"the workers held up to 0\.\d\d GB", said))


def test_out_of_memory_after_progress_restarts_once(tmp_path: Path) -> None:
    code, _, starts = ended(small_run(tmp_path), MEMORY_AT="27", MEMORY=TORCH)
    assert code == 3 and starts == [0, 20], "a checkpoint was made, then none"


@pytest.mark.parametrize("how", ["a link is down", "CUDA error: an illegal memory access was encountered"])
def test_other_errors_are_restarted(how: str, tmp_path: Path) -> None:
    code, said, starts = ended(small_run(tmp_path, max_restarts=1), MEMORY_AT="7", MEMORY=how)
    assert code == 1 and starts == [0, 0] and "out of memory" not in said


def test_a_worker_killed_by_others_is_restarted(tmp_path: Path) -> None:
    env = {"MEMORY_AT": "7", "MEMORY": "kernel", "COUNTER": str(tmp_path / "other")}
    code, said, starts = ended(small_run(tmp_path, max_restarts=1), **env)
    assert code == 1 and starts == [0, 0] and "SIGKILL" in said and "out of memory" not in said


def test_the_log_of_an_earlier_worker_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(TORCH + "\n")
    watch = MemoryWatch(tmp_path)
    assert watch.reason(1, 1) == ""
    with (tmp_path / "log.txt").open("a") as file:
        file.write(f"{JAX}\nfurther lines\n")
    assert "RESOURCE_EXHAUSTED" in watch.reason(1, 1)
    assert watch.reason(0, 1) == ""


def test_a_message_that_the_worker_survived_does_not_count(tmp_path: Path) -> None:
    watch, log = MemoryWatch(tmp_path), tmp_path / "log.txt"
    log.write_text(f"{TORCH}\n")
    watch.poll()
    assert TORCH[:20] in watch.reason(-11, 1), "no event has followed yet"
    record_event(tmp_path, "log", 5, {"loss": 1.0})
    watch.poll()
    assert watch.reason(-11, 1) == "", "a step was logged after it"
    with log.open("a") as file:
        file.write(f"{JAX}\n")
    watch.poll()
    assert "RESOURCE_EXHAUSTED" in watch.reason(-11, 1)


def test_a_message_counts_if_an_event_came_at_the_same_time(tmp_path: Path) -> None:
    watch = MemoryWatch(tmp_path)
    watch.poll()
    record_event(tmp_path, "log", 5, {"loss": 1.0})
    (tmp_path / "log.txt").write_text(f"{TORCH}\n")
    watch.poll()
    assert TORCH[:20] in watch.reason(-11, 1)


def test_a_retried_allocation_is_not_a_failure(tmp_path: Path) -> None:
    watch = MemoryWatch(tmp_path)
    said = "W bfc_allocator.cc:306] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB. The caller"
    (tmp_path / "log.txt").write_text(f"{said} indicates that this is not a failure, but more memory may be faster.\n")
    assert watch.reason(-11, 1) == ""


@pytest.mark.parametrize(
    ("line", "memory"),
    [
        ("  exitcode  : -9 (pid: 3417)  (SIGKILL)", True),
        ("[launch.py:325:sigkill_handler] ['python', 'worker'] exits with return code = -9", True),
        ("srun: error: node1: task 1: Killed", True),
        ("  exitcode  : 1 (pid: 3417)", False),
        ("[launch.py:325:sigkill_handler] ['python', 'worker'] exits with return code = 1", False),
    ],
)
def test_the_log_shows_how_one_of_several_workers_ended(line: str, memory: bool, tmp_path: Path, counter: Path) -> None:
    """The kernel counts other programs of the host too."""
    watch = MemoryWatch(tmp_path)
    counter.write_text("oom_kill 4\n")
    (tmp_path / "log.txt").write_text(line + "\n")
    assert watch.reason(1, 2).startswith("the kernel killed") == memory
    assert watch.reason(1, 1) == ""


@pytest.mark.parametrize(
    ("room", "changes", "words"),
    [
        (64, {}, "micro_batch=4 "),
        (3, {}, "micro_batch=2 (about 2.00 GB per process instead of 8.00 GB"),
        (1, {}, "no micro-batch fits"),
        (64, {"smaller": ()}, "the micro-batch is one row already"),
        (64, {"target": None}, "micro_batch=4 "),
    ],
)
def test_the_advice_is_the_largest_micro_batch_that_fits(
    room: int, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    run = small_run(tmp_path, options={"gradient_checkpointing": False})
    found = memory_advice(read_job(run), msgspec.structs.replace(planned(run, room * GB), **changes))
    assert words in found and "gradient_checkpointing = true" in found


def test_the_advice_without_a_plan(tmp_path: Path) -> None:
    assert "a smaller train.backend.numpy.micro_batch" in memory_advice(read_job(small_run(tmp_path)), None)


def test_the_cause_of_an_error_counts() -> None:
    outer = ValueError("the step failed")
    outer.__cause__ = RuntimeError(TORCH)
    assert is_out_of_memory(outer)
    assert not is_out_of_memory(ValueError("out of memory"))  # no framework raises this


def test_a_limit_of_the_process_is_the_machine_s_memory() -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30));"
    code += "from jprep.io.machine import memory; print(memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == min(3 << 30, memory())


@pytest.mark.parametrize("command", ["export", "infer"])
def test_other_subcommands_report_it_too(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError(TORCH)

    monkeypatch.setattr(cli, "CheckpointReader", full)
    monkeypatch.setattr(cli, "import_module", full)
    given = argparse.Namespace(command=command, checkpoint=Path("c"), folder=Path("f"))
    assert cli.run_command(given, lambda _: 0, "answering") == 3
    assert "jprep: out of memory" in capsys.readouterr().err
