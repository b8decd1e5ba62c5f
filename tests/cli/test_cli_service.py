"""`jprep service`: everything is killed, and the unit's command resumes the run as a new boot would."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, PATIENCE, Distribution, Run, environment
from tests.fakes.numpy_backend import offer
from tests.fakes.small_run import await_true, weights
from tests.fakes.small_work import small_work

RUN = Path("work/small/runs/numpy")


@pytest.fixture
def env(distribution: Distribution) -> dict[str, str]:
    return offer(distribution)


def _setting(unit: str, name: str) -> str:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)[0]


def _start_and_kill(folder: Path, words: list[str], env: dict[str, str], step: int) -> None:
    """Start a command, and kill all of its processes once a step is saved."""
    slow = environment(**env, PAUSE="0.2")
    with subprocess.Popen([COMMAND, *words], cwd=folder, env=slow, start_new_session=True) as process:
        await_true(lambda: (folder / RUN / "checkpoints" / f"step-{step:08}" / "COMMIT.json").exists())
        os.killpg(process.pid, signal.SIGKILL)
    assert not (folder / RUN / "checkpoints" / "step-00000030").exists()


def _unit_environment(unit: str) -> dict[str, str]:
    """Return the variables that a unit sets; systemd passes on none of its own but a few such as PATH."""
    lines = re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)
    return dict(word.split("=", 1) for line in lines for word in shlex.split(line))


def test_a_run_whose_processes_were_killed_is_resumed_by_the_unit_and_by_cron(
    tmp_path: Path, env: dict[str, str], jprep: Run
) -> None:
    straight, folder = tmp_path / "straight", tmp_path / "a folder"
    for each in (straight, folder):
        each.mkdir()
        small_work(each)
    jprep("train", "small.toml", "--backend", "numpy", cwd=straight, env=env)
    words = ["train", "small.toml", "--backend", "numpy", "--set", "train.checkpoint.every_steps=5"]
    _start_and_kill(folder, [*words, "--resume", "never"], env, 5)

    variables = ["A", *env]
    given = [part for name in variables for part in ("--env", name)]
    unit = jprep("service", folder / RUN, *given, cwd=tmp_path, env=env | {"A": "b c"}).stdout
    found = _unit_environment(unit)
    assert "--resume" not in unit and found["A"] == "b c"
    command = shlex.split(_setting(unit, "ExecStart"))
    assert command == [COMMAND, *words]
    booted = subprocess.run(
        command, cwd=_setting(unit, "WorkingDirectory"), env=found, capture_output=True, text=True, timeout=PATIENCE
    )
    assert booted.returncode == 0 and re.search(r"from step [1-9]", booted.stderr), booted.stderr
    assert weights(folder / RUN, 30) == weights(straight / RUN, 30)

    shutil.rmtree(folder / RUN)
    _start_and_kill(folder, words, env, 5)
    line = jprep("service", folder / RUN, *given, "--cron", cwd=tmp_path, env=env | {"A": "b c"}).stdout
    minutes, called = line.rstrip("\n").replace("\\%", "%").split(" * * * * ")
    cron = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    subprocess.run(["/bin/sh", "-c", called], cwd="/", env=cron, check=True, timeout=PATIENCE)
    assert minutes == "*/10" and (folder / RUN / "service.stopped").exists()
    assert "from step " in (folder / RUN / "service.log").read_text()
    assert weights(folder / RUN, 30) == weights(straight / RUN, 30)


def test_a_folder_without_a_run_and_unset_variables_are_errors(tmp_path: Path, jprep: Run, env: dict[str, str]) -> None:
    assert "command.json" in jprep("service", tmp_path, cwd=tmp_path, code=2).stderr
    small_work(tmp_path)
    jprep("train", "small.toml", "--backend", "numpy", cwd=tmp_path, env=env)
    assert "'NO_SUCH' is not set" in jprep("service", RUN, "--env", "NO_SUCH", cwd=tmp_path, code=2).stderr
    assert "--user" in jprep("service", RUN, "--cron", "--user", "me", cwd=tmp_path, code=2).stderr
