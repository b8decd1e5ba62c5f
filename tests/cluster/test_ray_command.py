"""`--executor ray` on a cluster that the command starts: output, Ctrl-C, resume."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jprep import samples
from jprep.io.atomic import write_atomic
from tests.conftest import COMMAND, PATIENCE, digests, environment
from tests.fakes.ray_cluster import RayCluster

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jprep[ray]'")
pytestmark = [pytest.mark.backends, pytest.mark.xdist_group("ray")]

SLOW = """import os, time
from pathlib import Path
from jprep.corpus.step import Normalizer

class Slow(Normalizer):
    name = "slow"

    def apply(self, text):
        Path(f"worker-{os.getpid()}").touch()
        time.sleep(float(Path("pause").read_text()))
        return text
"""
OTHER = "filters = []\n"
"""Makes another recipe."""
RECIPE = """name = "work"
[corpus]
normalizers = [{ use = "./slow.py:Slow" }]
"""
KILLS = int(os.environ.get("JPREP_KILLS", "20"))
"""How often the command is killed."""
SOURCE = '[[corpus.sources]]\nname = "wiki{}"\nreader = "wikipedia"\npaths = ["{}"]\n'


def start(folder: Path, output: str, *more: str, **env: str) -> subprocess.Popen[str]:
    """Start a build in a process group of its own, as a terminal does; relative paths are those of `folder`."""
    command = [COMMAND, "corpus", "build", "recipe.toml", "-o", output, *more]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment(**env), process_group=0, **pipes)


def write_inputs(folder: Path) -> None:
    samples.write_sample(folder)
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    write_recipe(folder)
    pause(folder, 0)


def write_recipe(folder: Path, more: str = "") -> None:
    sources = "".join(SOURCE.format(number, samples.DUMP) for number in range(6))
    (folder / "recipe.toml").write_text(RECIPE + more + sources, encoding="utf-8")


def pause(folder: Path, seconds: float) -> None:
    """Set how long a text takes in all processes."""
    write_atomic(folder / "pause", str(seconds).encode())


def receipts(folder: Path) -> list[Path]:
    return list(folder.glob("corpus/**/receipts/*.json"))


def wait_for_receipts(folder: Path, running: subprocess.Popen[str], number: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(receipts(folder)) < number:
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


def workers(folder: Path) -> list[int]:
    """Return the processes that have read documents, and live."""
    numbers = (int(path.name.removeprefix("worker-")) for path in folder.glob("worker-*"))
    return [number for number in numbers if Path(f"/proc/{number}").exists()]


def kill_at_work(folder: Path, *options: str) -> None:
    """Start the build; kill the command, and nothing else, some time after its workers have begun."""
    before, running = workers(folder), start(folder, "corpus", *options)
    deadline = time.monotonic() + PATIENCE
    while running.poll() is None and not set(workers(folder)).difference(before):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(2 * random.random())
    running.kill()
    told = running.communicate(timeout=PATIENCE)[1]
    assert running.returncode in (0, -signal.SIGKILL), told


def finish(started: subprocess.Popen[str]) -> str:
    """Wait until a command has ended well; return its messages."""
    told = started.communicate(timeout=PATIENCE)[1]
    assert started.returncode == 0, told
    return told


@pytest.mark.soak
def test_ctrl_c_finishes_running_tasks_and_the_same_command_resumes(tmp_path: Path, ray_cluster: RayCluster) -> None:
    write_inputs(tmp_path)
    pause(tmp_path, 0.2)
    ray = ("--executor", "ray", "--workers", "2")

    interrupted = start(tmp_path, "corpus", *ray)
    wait_for_receipts(tmp_path, interrupted, 1)
    before = receipts(tmp_path)
    os.killpg(interrupted.pid, signal.SIGINT)
    printed, told = interrupted.communicate(timeout=PATIENCE)
    assert interrupted.returncode == 130, told
    assert "finishing the tasks that are running" in told and "--executor ray" in told and "Traceback" not in told
    assert printed == ""
    assert len(before) <= len(receipts(tmp_path)) < 6

    pause(tmp_path, 0)
    told = finish(start(tmp_path, "corpus", "--executor", "ray", "--set", f"executor.address={ray_cluster.address}"))
    told = "".join(line for line in told.splitlines(keepends=True) if "authentication" not in line)  # a notice of Ray's
    assert "ray" not in told.replace("--executor ray", "").lower()
    finish(start(tmp_path, "local", "--workers", "1"))
    assert digests(tmp_path / "corpus") == digests(tmp_path / "local")


@pytest.mark.soak
def test_the_command_is_killed_and_run_again(tmp_path: Path, ray_cluster: RayCluster) -> None:
    """Also with another recipe at the end: workers of a killed command must not write what it wanted."""
    write_inputs(tmp_path)
    ray = ("--executor", "ray", "--set", f"executor.address={ray_cluster.address}")
    for number in range(KILLS):
        pause(tmp_path, number % 2 / 10)
        kill_at_work(tmp_path, *ray, *(["--restart"] if (tmp_path / "corpus" / "corpus.json").exists() else []))
    pause(tmp_path, 0)
    write_recipe(tmp_path, OTHER)
    finish(start(tmp_path, "corpus", *ray, "--restart"))
    built = digests(tmp_path / "corpus")
    began = time.monotonic()
    while workers(tmp_path):
        assert time.monotonic() < began + PATIENCE
        time.sleep(0.05)
    assert digests(tmp_path / "corpus") == built
    finish(start(tmp_path, "local", "--workers", "1"))
    assert built == digests(tmp_path / "local")
