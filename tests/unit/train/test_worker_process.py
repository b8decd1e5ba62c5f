"""How a worker's process ends."""

from __future__ import annotations

import os
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
        ("sys.exit()", 0, ""),
        ("sys.exit('refused')", 1, "refused\n"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
    ],
)
def test_a_process_ends_with_the_code_and_without_finalization(ending: str, code: int, error: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(ending=ending)]
    found = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout) == (code, "main\nat exit\n")
    assert found.stderr.endswith(error) and ("Traceback" in found.stderr) == ("ValueError" in error)


def test_a_process_whose_output_is_closed_ends_without_finalization() -> None:
    program = PROGRAM.format(ending="return 0").replace('print("finalized")', "import os; os._exit(9)")
    env = os.environ | {"PYTHONUNBUFFERED": ""}  # so that the error comes at the end
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.wait(300) == 0
    process.stderr.close()


def test_threads_and_pools_end_before_the_process() -> None:
    pool = "from concurrent.futures import ThreadPoolExecutor; import time; pool = ThreadPoolExecutor(1)"
    ending = f"{pool}; pool.submit(lambda: (time.sleep(0.3), print('done'))); return 0"
    program = [sys.executable, "-c", PROGRAM.format(ending=ending)]
    found = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout) == (0, "main\ndone\nat exit\n")
