"""`jprep train --executor slurm`: submit a training as a job."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.cli.common.output import echo, echo_json, next_steps, note
from jprep.cli.common.shell_command import current_words, shell_command
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from jprep.train.job.config import TrainConfig

_NOT_REPEATED = ("--executor", "--resume", "--profile")


def submit(
    executor: str, train: TrainConfig | None, backend: str, recipe: str, run: Path, *, dry_run: bool, as_json: bool
) -> int:
    """Submit a training, or print the script.

    Args:
        executor: the scheduler.
        train: the recipe's section.
        backend: the backend's name.
        recipe: the recipe's name.
        run: the run directory.
        dry_run: print the script only.
        as_json: print JSON.

    Raises:
        ConfigError: there is no `[train]`, it cannot be submitted, or a job trains this run already.
        MachineError: Slurm is not installed, refuses the job or does not answer.
    """
    from jprep.train.hosts.submission import check_submission, script_of, submit_training, training_job

    if not train:
        raise ConfigError("the recipe has no [train] section", where="[train]", fix="see docs/recipes.md")
    check_submission(executor, train, backend)
    words = current_words(without=_NOT_REPEATED, flags=["--dry-run", "--json"])
    job = training_job(train.submit, words, f"{recipe}-{run.name}", run)
    if dry_run:
        script = script_of(job)
        if as_json:
            echo_json({"script": script, "logs": str(job.logs)})
            return 0
        echo(script.rstrip())
        note(f"jprep: before sbatch:  mkdir -p {shlex.quote(str(job.logs))}")
        return 0
    number, is_new, log = submit_training(job)
    if not is_new:
        what = f"job {number} trains this run already"
        raise ConfigError(what, where=str(run), fix=f"wait for it, or end it with `scancel {number}`")
    if as_json:
        echo_json({"job": number, "run": str(run), "logs": str(job.logs)})
        return 0
    echo(f"submitted as job {number}\n  run   {run}\n  log   {log}")
    next_steps(f"squeue --job {shlex.quote(number)}", shell_command("report", run), f"scancel {shlex.quote(number)}")
    return 0
