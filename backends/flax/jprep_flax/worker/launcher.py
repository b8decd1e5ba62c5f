"""Start a run's processes on this machine, and end all when one dies.

`python -m jprep_flax.worker.launcher COUNT VERB …`
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence

_LOOK = 0.05  # seconds between two looks at them


def main(arguments: Sequence[str]) -> int:
    """Run so many workers to their end; the exit code is the first that is not 0."""
    count, *verb = arguments
    where = f"localhost:{_free_port()}"
    command = [sys.executable, "-m", "jprep_flax.worker", *verb, "--coordinator", where, "--process"]
    workers = [subprocess.Popen([*command, str(number)]) for number in range(int(count))]
    try:
        return _await(workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _await(workers: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait until all have ended well or one has not: the others would wait for it forever."""
    while True:
        codes = [worker.poll() for worker in workers]
        if bad := [code for code in codes if code]:
            return bad[0] if bad[0] > 0 else 128 - bad[0]
        if None not in codes:
            return 0
        time.sleep(_LOOK)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port: int = one.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
