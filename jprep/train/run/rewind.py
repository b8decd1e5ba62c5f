"""Set a run's later checkpoints aside: `python -m jprep.train.run.rewind RUN`, or `jprep train --resume`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jprep.errors import JprepError
from jprep.io.lock import hold_lock
from jprep.train.run.directory import LOCK, checkpoints_of, read_job
from jprep.train.run.log import on_stderr
from jprep.train.run.resume import rewind


def main(arguments: Sequence[str] | None = None) -> int:
    """Set aside the checkpoints after a step, and return the exit code. The next start begins there."""
    parser = argparse.ArgumentParser(
        prog="python -m jprep.train.run.rewind", description="Set later checkpoints aside."
    )
    parser.add_argument("run", type=Path, help="the run directory")
    parser.add_argument("--step", type=int, default=0, help="begin after this one; 0, the default, is the beginning")
    given = parser.parse_args(arguments)
    run = given.run.absolute()
    try:
        job = read_job(run)
        with hold_lock(run / LOCK):
            rewind(run, checkpoints_of(run, job), given.step)
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
