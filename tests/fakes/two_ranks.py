"""A launcher of two workers of `training_worker.py`, each in a separate process session, as with some launchers.

`python two_ranks.py RUN`. Where one ends badly it ends the other after GRACE seconds; it never passes on a signal.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

WORKER = Path(__file__).with_name("training_worker.py")


def main() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pair, ranks = socket.socketpair(), []
    for rank, end in enumerate(pair):
        env = {**os.environ, "RANK": str(rank), "WORLD": "2", "PEER": str(end.fileno())}
        command = [sys.executable, str(WORKER), *sys.argv[1:]]
        ranks.append(subprocess.Popen(command, env=env, pass_fds=[end.fileno()], start_new_session=True))
    for end in pair:
        end.close()
    while not any(rank.poll() for rank in ranks) and any(rank.poll() is None for rank in ranks):
        time.sleep(0.01)
    time.sleep(float(os.environ.get("GRACE", "0")) if any(rank.returncode for rank in ranks) else 0)
    for rank in ranks:
        rank.kill()
        rank.wait()
    return 1 if any(rank.returncode for rank in ranks) else 0


if __name__ == "__main__":
    sys.exit(main())
