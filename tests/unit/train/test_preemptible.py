"""The scripts in docs/guides/pre-emptible-machines.md."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "guides" / "pre-emptible-machines.md").read_text(encoding="utf-8")
UNIT = "jprep-jawiki.service"


@pytest.mark.parametrize(
    ("state", "called"),
    [
        ("", ["describe", "create"]), ("SUSPENDED", ["describe", "delete", "create"]),
        ("FAILED", ["describe", "delete", "create"]), ("ACTIVE", ["describe"]), ("PROVISIONING", ["describe"]),
        ("WAITING_FOR_RESOURCES", ["describe"]), ("SUSPENDING", ["describe"]),
    ],
)  # fmt: skip
def test_a_tpu_is_created_again_only_if_it_is_gone(state: str, called: list[str], tmp_path: Path) -> None:
    [script] = re.findall(r"```sh\n(# ensure-tpu\.sh.*?)```", PAGE, re.DOTALL)
    program, said = tmp_path / "gcloud", tmp_path / "said"
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\n[ "$4" != describe ] || echo {state}\n')
    program.chmod(0o755)
    subprocess.run(["sh"], input=script, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, text=True, check=True)
    lines = said.read_text().splitlines()
    assert [line.split()[3] for line in lines] == called
    assert "create" not in called or "--data-disk source=projects/" in lines[-1]


def test_the_start_up_script_may_be_run_again(tmp_path: Path) -> None:
    [script] = re.findall(r"```sh\n(#!/bin/sh\n# startup\.sh.*?)```", PAGE, re.DOTALL)
    disk, units, said = tmp_path / "disk", tmp_path / "systemd", tmp_path / "said"
    programs = tmp_path / "bin"
    for folder in (disk, units, programs):
        folder.mkdir()
    (disk / UNIT).write_text("[Service]\n")
    for name, does in (
        ("mountpoint", f"test -e {tmp_path}/mounted"), ("mount", f"touch {tmp_path}/mounted"),
        ("id", f"test -e {tmp_path}/user"), ("useradd", f"touch {tmp_path}/user"), ("systemctl", ""),
    ):  # fmt: skip
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {said}\n{does}\n')
        (programs / name).chmod(0o755)
    script = script.replace("/mnt/disk", str(disk)).replace("/etc/systemd/system", str(units))

    def run() -> list[str]:
        said.write_text("")
        env = os.environ | {"PATH": f"{programs}:/usr/bin:/bin"}
        subprocess.run(["sh"], input=script, env=env, text=True, check=True)
        return [line.split()[0] for line in said.read_text().splitlines()]

    assert run() == ["mountpoint", "mount", "id", "useradd", "systemctl", "systemctl"]
    assert run() == ["mountpoint", "id", "systemctl", "systemctl"]
    assert (units / UNIT).read_text() == "[Service]\n"
