"""Takes part in a run whose first process is on another machine: `python -m jprep_flax.joining RUN …`.

`jprep train` on the first machine starts attempts; this starts a worker for each, and waits for the next where one is
over. Only the run directory says so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from jprep.train.attempt import ATTEMPT, NOBODY, RESUME, wanted
from jprep.train.checkpoints import Checkpoint
from jprep.train.rundir import LOCK, checkpoints_of, read_job

_LOOK = 0.25  # seconds between two looks at the run
_HOPELESS = (2, 3, 4)


def main(arguments: Sequence[str]) -> int:
    """Take part until the run is finished, or fails for good; 0, or the worker's exit code."""
    run, attempt = Path(arguments[0]).absolute(), ""
    while attempt := _next(run, attempt):
        newest = _newest(run)
        env = os.environ | {ATTEMPT: attempt, RESUME: newest.folder.name if newest else ""}
        command = [sys.executable, "-m", "jprep_flax.worker", "train", str(run), *arguments[1:]]
        # The worker ends its whole group where its attempt is over.
        code = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, start_new_session=True).returncode
        if code in _HOPELESS:
            return code
    return 0


def _next(run: Path, last: str) -> str:
    """The name of the attempt that is going on, when it is another than the last; "" where the run is finished."""
    while True:
        newest = _newest(run)
        if newest and newest.step >= read_job(run).steps:
            return ""
        with contextlib.suppress(FileNotFoundError):
            name = (run / LOCK).read_text().strip()
            if name not in (NOBODY, last) and wanted(run, name):
                return name
        time.sleep(_LOOK)


def _newest(run: Path) -> Checkpoint | None:
    """The checkpoint that an attempt goes on from: the supervisor has looked at it before it named the attempt."""
    found = checkpoints_of(run, read_job(run)).committed()
    return found[-1] if found else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
