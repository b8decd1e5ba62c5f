"""`python -m jprep.train.run.rewind RUN`: set aside later checkpoints of a run, as `jprep train --resume` does."""

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

_PROGRAM = "python -m jprep.train.run.rewind"


def main(arguments: Sequence[str] | None = None) -> int:
    """Set aside the checkpoints after a step, where the next start then resumes. Return the exit code."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description="Set aside the checkpoints after a step.")
    parser.add_argument("run", type=Path, help="the run directory")
    parser.add_argument("--step", type=int, default=0, help="the step to resume from; default: 0, from the beginning")
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
