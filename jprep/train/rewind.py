"""Sets later checkpoints of a run aside: `python -m jprep.train.rewind RUN`. `jprep train --resume` does it as well."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jprep.errors import JprepError
from jprep.io.lock import locked
from jprep.train.log import on_stderr
from jprep.train.resuming import rewind
from jprep.train.rundir import LOCK, checkpoints_of, read_job


def main(arguments: Sequence[str] | None = None) -> int:
    """Set aside the checkpoints after a step, and return the exit code. The next start begins there."""
    parser = argparse.ArgumentParser(prog="python -m jprep.train.rewind", description="Set later checkpoints aside.")
    parser.add_argument("run", type=Path, help="the run directory")
    parser.add_argument("--step", type=int, default=0, help="begin after this one; 0, the default, is the beginning")
    given = parser.parse_args(arguments)
    run = given.run.absolute()
    try:
        job = read_job(run)
        with locked(run / LOCK):
            rewind(run, checkpoints_of(run, job), given.step)
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
