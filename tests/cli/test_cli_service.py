"""`jprep service`: everything is killed, and the unit's command resumes the run as a new boot would."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Distribution, Run, environment
from tests.fakes.numpy_backend import offer
from tests.fakes.small_run import await_true, weights
from tests.fakes.small_work import small_work

RUN = Path("work/small/runs/numpy")


@pytest.fixture
def env(distribution: Distribution) -> dict[str, str]:
    return offer(distribution)


def _setting(unit: str, name: str) -> str:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)[0]


def test_a_run_whose_processes_were_killed_is_resumed_by_the_unit_s_command(
    tmp_path: Path, env: dict[str, str], jprep: Run
) -> None:
    straight, folder = tmp_path / "straight", tmp_path / "a folder"
    for each in (straight, folder):
        each.mkdir()
        small_work(each)
    jprep("train", "small.toml", "--backend", "numpy", cwd=straight, env=env)

    words = [
        "train",
        "small.toml",
        "--backend",
        "numpy",
        "--set",
        "train.checkpoint.every_steps=5",
        "--resume",
        "never",
    ]
    slow = environment(**env, PAUSE="0.05")
    with subprocess.Popen([COMMAND, *words], cwd=folder, env=slow, start_new_session=True) as process:
        await_true(lambda: (folder / RUN / "checkpoints" / "step-00000005" / "COMMIT.json").exists())
        os.killpg(process.pid, signal.SIGKILL)
    assert not (folder / RUN / "checkpoints" / "step-00000030").exists()

    unit = jprep("service", folder / RUN, "--env", "A", cwd=tmp_path, env=env | {"A": "b c"}).stdout
    assert "--resume" not in unit and f"Environment={shlex.quote('A=b c')}".replace("'", '"') in unit
    command = shlex.split(_setting(unit, "ExecStart"))
    assert command == [COMMAND, *words[:-2]]
    booted = environment(**env)
    done = subprocess.run(command, cwd=_setting(unit, "WorkingDirectory"), env=booted, capture_output=True, text=True)
    assert done.returncode == 0 and re.search(r"from step [1-9]", done.stderr), done.stderr
    assert weights(folder / RUN, 30) == weights(straight / RUN, 30)
    line = jprep("service", RUN, "--cron", cwd=folder, env=env).stdout
    assert line.startswith("*/10 * * * * cd ") and "flock" in line and "0|2|3|4)" in line


def test_a_folder_without_a_run_and_unset_variables_are_errors(tmp_path: Path, jprep: Run, env: dict[str, str]) -> None:
    assert "command.json" in jprep("service", tmp_path, cwd=tmp_path, code=2).stderr
    small_work(tmp_path)
    jprep("train", "small.toml", "--backend", "numpy", cwd=tmp_path, env=env)
    assert "'NO_SUCH' is not set" in jprep("service", RUN, "--env", "NO_SUCH", cwd=tmp_path, code=2).stderr
    assert "--user" in jprep("service", RUN, "--cron", "--user", "me", cwd=tmp_path, code=2).stderr
