"""How a worker's process ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys
from jprep.train.worker.cli import run_process

class Freed:
    def __del__(self):
        print("finalized")

freed = Freed()
atexit.register(lambda: print("at exit"))

def main():
    print("main")
    {ending}

run_process(main)
print("not reached")
"""


@pytest.mark.parametrize(
    ("ending", "code", "error"),
    [
        ("return 0", 0, ""),
        ("return 3", 3, ""),
        ("sys.exit(2)", 2, ""),
        ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
    ],
)
def test_a_process_ends_with_the_code_and_without_finalization(ending: str, code: int, error: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(ending=ending)]
    found = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout) == (code, "main\nat exit\n")
    assert found.stderr.endswith(error) and ("Traceback" in found.stderr) == bool(error)
