"""Start several worker processes on this machine: `python -m jprep_flax.worker.launcher COUNT COMMAND …`.

If one of them fails, all are ended.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from jprep.train.hosts.host_launcher import free_port

_POLL_INTERVAL = 0.05  # seconds


def main(arguments: Sequence[str]) -> int:
    """Run `COUNT` workers to their end, and return the first exit code that is not 0."""
    count, *worker_arguments = arguments
    coordinator = f"localhost:{free_port('localhost')}"
    command = [sys.executable, "-m", "jprep_flax.worker", *worker_arguments, "--coordinator", coordinator, "--process"]
    workers = [subprocess.Popen([*command, str(number)]) for number in range(int(count))]
    try:
        return _wait(workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _wait(workers: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait until all workers have succeeded or one has failed: the others would wait for it forever."""
    while True:
        codes = [worker.poll() for worker in workers]
        if failed := [code for code in codes if code]:
            return failed[0] if failed[0] > 0 else 128 - failed[0]
        if None not in codes:
            return 0
        time.sleep(_POLL_INTERVAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
