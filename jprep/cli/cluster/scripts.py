"""Show the scripts that the executor of a batch scheduler would submit, for `--dry-run`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.cli.common.output import echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jprep.engine.executors.choice import ExecutorRef
    from jprep.pipeline.run import RunPlan


def show_training_script(plan: RunPlan) -> None:
    """Print the script of the job in which a plan trains; nothing if it trains in this process.

    Raises:
        ConfigError: `[train.submit]` is wrong.
    """
    from jprep.cli.common.shell_command import current_words
    from jprep.engine.schedulers.choice import find_scheduler
    from jprep.pipeline.submitted_training import plan_submission
    from jprep.train.hosts.requeue import SLURM

    if job := plan_submission(plan, current_words(flags=["--dry-run"])):
        scheduler = find_scheduler(SLURM)
        submit = f"mkdir -p {shlex.quote(str(job.logs))} && {shlex.join(scheduler.submit_command())}"
        echo(f"\n# {plan.run}: training\n{submit} <<'EOF'\n{scheduler.script(job)}EOF")


def show_scripts(ref: ExecutorRef | None, executor: str | None, outputs: Sequence[tuple[Path, list[str]]]) -> None:
    """Print the scripts of all stages; nothing for an executor without a scheduler.

    Args:
        ref: the recipe's `executor`.
        executor: the executor's name; None for that of `ref`, or else `local`.
        outputs: output directories with the names of their stages.

    Raises:
        ConfigError: there is no such executor, or an option is wrong.
    """
    from jprep.cli.common.shell_command import current_words
    from jprep.engine.executors.choice import make_executor
    from jprep.engine.executors.protocols import ScriptExecutor

    running = make_executor(ref, executor, 1, lambda: False)
    if not isinstance(running, ScriptExecutor):
        return
    running.attach(current_words(flags=["--dry-run"]), echo)
    echo("\njobs; LAST, ID and JOB are known once the tasks are:")
    for output, stages in outputs:
        for shown in running.scripts(output, stages):
            echo(f"\n# {output}: {shown.title}\n{shlex.join(shown.command)} <<'EOF'\n{shown.script}EOF")
