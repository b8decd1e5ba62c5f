"""The systemd unit and the start-up script for preemptible machines in docs/fairseq-xla.md."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jprep.train.launcher.supervisor import _STOPPED
from jprep.train.run.attempt import FATAL_EXIT_CODES
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "fairseq-xla.md").read_text(encoding="utf-8").partition("## Pre-emptible machines")[2]


def block(kind: str) -> str:
    [found] = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_systemd_unit_restarts_only_what_a_restart_can_fix() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini"))
    service = unit["Service"]
    assert service["Restart"] == "on-failure" and service["KillMode"] == "mixed"
    assert [int(code) for code in service["RestartPreventExitStatus"].split()] == list(FATAL_EXIT_CODES)
    assert int(service["SuccessExitStatus"]) == _STOPPED


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", block("ini"))
    unit = tmp_path / "jprep.service"
    unit.write_text(re.sub(r"User=jprep\n", "", text))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert not [line for line in done.stderr.splitlines() if "jprep" in line], done.stderr


def test_the_start_up_script_may_be_run_again(tmp_path: Path) -> None:
    disk, units, said = tmp_path / "disk", tmp_path / "systemd", tmp_path / "said"
    programs = tmp_path / "bin"
    for folder in (disk, units, programs):
        folder.mkdir()
    (disk / "jprep.service").write_text(block("ini"))
    for name, does in (
        ("mountpoint", f"test -e {tmp_path}/mounted"), ("mount", f"touch {tmp_path}/mounted"),
        ("id", f"test -e {tmp_path}/user"), ("useradd", f"touch {tmp_path}/user"), ("systemctl", ""),
    ):  # fmt: skip
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {said}\n{does}\n')
        (programs / name).chmod(0o755)
    script = block("sh").replace("/mnt/disk", str(disk)).replace("/etc/systemd/system", str(units))

    def run() -> list[str]:
        said.write_text("")
        env = os.environ | {"PATH": f"{programs}:/usr/bin:/bin"}
        subprocess.run(["sh"], input=script, env=env, text=True, check=True)
        return [line.split()[0] for line in said.read_text().splitlines()]

    assert run() == ["mountpoint", "mount", "id", "useradd", "systemctl", "systemctl"]
    assert run() == ["mountpoint", "id", "systemctl", "systemctl"]
    assert (units / "jprep.service").read_text() == block("ini")
