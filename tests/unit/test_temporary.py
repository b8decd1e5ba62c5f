"""Temporary directories: deleted at their end, and by the next process after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from jprep.io.temporary import temporary_directory

HOLDER = """
import sys
from pathlib import Path
from jprep.io.temporary import temporary_directory
with temporary_directory("large-", Path(sys.argv[1])) as folder:
    (folder / "model").write_bytes(b"0")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_directory_ends_with_its_block(tmp_path: Path) -> None:
    with temporary_directory("a-", tmp_path) as one, temporary_directory("a-", tmp_path) as other:
        assert one.is_dir() and other.is_dir() and one != other
    assert not list(tmp_path.iterdir())


def test_only_what_a_killed_process_left_is_deleted(tmp_path: Path) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, **pipes) as killed, subprocess.Popen(command, **pipes) as living:
        folders = [Path(each.stdout.readline().strip()) for each in (killed, living)]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert folders[0].is_dir()
        with temporary_directory("small-", tmp_path):
            assert folders[0].is_dir(), "another use"
        with temporary_directory("large-", tmp_path):
            assert [(each / "model").exists() for each in folders] == [False, True]
        living.communicate("")
    assert not list(tmp_path.iterdir())
