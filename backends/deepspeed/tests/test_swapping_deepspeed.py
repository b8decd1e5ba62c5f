"""Directories of optimizer states in files: one of each process, deleted at its end or by the next run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jprep.errors import MachineError
from jprep_deepspeed.worker.swapping import swap_directory

HOLDER = """
import json, sys
from jprep_deepspeed.worker.swapping import swap_directory
with swap_directory(json.loads(sys.argv[1])) as config:
    folder = config["zero_optimization"]["offload_optimizer"]["nvme_path"]
    open(folder + "/large.swp", "w").close()
    print(folder, flush=True)
    sys.stdin.read()
"""


def config(parent: Path) -> dict[str, Any]:
    return {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": str(parent)}}}


def folder_of(found: dict[str, Any]) -> Path:
    return Path(found["zero_optimization"]["offload_optimizer"]["nvme_path"])


def test_each_process_has_a_directory_that_ends_with_it(tmp_path: Path) -> None:
    given = config(tmp_path / "swap")
    with swap_directory(given) as one, swap_directory(given) as other:
        assert folder_of(one).is_dir() and folder_of(other).is_dir() and folder_of(one) != folder_of(other)
        assert folder_of(given) == tmp_path / "swap"
    assert not list((tmp_path / "swap").iterdir())


def test_what_a_killed_process_left_is_deleted_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, json.dumps(config(tmp_path))]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as killed, subprocess.Popen(command, **pipes) as living:
        folders = [Path(each.stdout.readline().strip()) for each in (killed, living)]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert folders[0].is_dir()
        with swap_directory(config(tmp_path)):
            assert [(each / "large.swp").exists() for each in folders] == [False, True]
        living.communicate("")
    assert not list(tmp_path.iterdir())


def test_what_another_host_has_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("this", "other"):
        (tmp_path / f"jprep-swap-{host}-1").mkdir()
        (tmp_path / f"jprep-swap-{host}-1.lock").touch()
    monkeypatch.setattr("socket.gethostname", lambda: "this")
    with swap_directory(config(tmp_path)):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jprep-swap-other-1", "jprep-swap-other-1.lock"]


def test_a_directory_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="cannot be used") as caught, swap_directory(config(tmp_path / "file")):
        pass
    assert caught.value.where == "train.backend.deepspeed.nvme_path"


def test_other_configurations_need_no_directory(tmp_path: Path) -> None:
    given = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    with swap_directory(given) as found:
        assert found is given and not list(tmp_path.iterdir())
