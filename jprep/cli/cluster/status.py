"""`jprep status`."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from jprep.cli.cluster.run_status import RERUN, plain_run, show_run
from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json
from jprep.io.escaping import one_line
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.engine.queue.survey import OutputStatus, StageStatus
    from jprep.engine.schedulers.job import JobState

_SHOWN = 5  # failures that are shown


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@AS_JSON
def status(folder: Path, as_json: bool) -> None:
    """Show how far the work in DIR is: an output directory, a recipe's directory, or that of all recipes.

    Tasks that are done, failed and left are counted by stage; jobs of a scheduler are shown with their states and
    hosts, and the last failures with their logs. Training runs are shown with their state, step, losses, newest
    checkpoint, and the command that resumes them. Nothing is changed.

    \b
    Example:
      jprep status work
      jprep status work/jawiki
      jprep status work/jawiki/runs/torch
    """
    from jprep.train.results.summary import find_runs, summarize_run

    runs = find_runs(folder)
    found = [(each, _jobs(each)) for each in _outputs(folder, runs)]
    summaries = [summarize_run(path) for path in runs]
    if as_json:
        echo_json([_plain(each, states) for each, states in found] + [plain_run(each) for each in summaries])
        return
    for each, (states, problem) in found:
        _show(each, states, problem)
    for run in summaries:
        show_run(run)


def _outputs(folder: Path, runs: list[Path]) -> list[OutputStatus]:
    """Return the status of all outputs but runs and sets of folds; nothing for a folder that has runs only."""
    from jprep.engine.queue.survey import survey
    from jprep.train.run.directory import is_fold

    found = [] if folder in runs else survey(folder, {*runs, *(run.parent for run in runs if is_fold(run))})
    return [each for each in found if each.kind or each.running or each.stages] if runs else found


def _jobs(output: OutputStatus) -> tuple[list[JobState], str]:
    """Return the states of an output's jobs, and why they are not known."""
    from jprep.engine.schedulers.choice import find_scheduler
    from jprep.errors import JprepError

    states: list[JobState] = []
    for stage in output.stages:
        if stage.jobs and stage.jobs.ids:
            try:
                states += find_scheduler(stage.jobs.scheduler).states(stage.jobs.ids)
            except JprepError as error:
                return [], error.what
    return states, ""


def _plain(output: OutputStatus, found: tuple[list[JobState], str]) -> dict[str, object]:
    states, problem = found
    plain = msgspec.to_builtins(output)
    for fields, stage in zip(plain["stages"], output.stages, strict=True):
        fields["left"] = stage.left
    more = {"jobs": msgspec.to_builtins(states), "jobs_error": problem, "next": _next(output, states, problem)}
    return {**plain, **more, "run": None}


def _show(output: OutputStatus, states: list[JobState], problem: str) -> None:
    echo(f"{output.path}: {output.kind or ('an output of a kind not yet known' if output.running else 'no output')}")
    if output.running:
        echo("  state: running now")
    for stage in output.stages:
        _show_stage(stage)
    if problem:
        echo(f"  jobs: unknown ({one_line(problem)})")
    for state in states:
        name = f"{state.id}_{state.element}" if state.element else state.id
        echo(f"  job {name}: {' '.join(filter(None, [state.state, state.host, _reason(state)]))}")
    echo(f"  next: {_next(output, states, problem)}")


def _reason(state: JobState) -> str:
    return f"({one_line(state.reason)})" if state.reason and state.reason != "None" else ""


def _show_stage(stage: StageStatus) -> None:
    total = counted(stage.done if stage.total is None else stage.total, "task")
    done = total if stage.total is None else f"{stage.done:,} of {total}"
    left = f", {stage.left:,} left" if stage.left is not None else ""
    echo(f"  {stage.stage}: {done} done, {len(stage.failed):,} failed{left}")
    hosts = Counter(failure.host for failure in stage.failed)
    for failure in stage.failed[-_SHOWN:]:
        echo(f"    {failure.task}: {one_line(failure.what)} (on {failure.host}, log {failure.log or 'unknown'})")
    if len(hosts) == 1 and len(stage.failed) > 1:
        echo(f"    all failures are on {next(iter(hosts))}")


def _next(output: OutputStatus, states: list[JobState], problem: str) -> str:
    """Return what to do."""
    if output.finished:
        return "nothing: it is finished"
    if states:
        from jprep.engine.schedulers.choice import find_scheduler

        jobs = next(stage.jobs for stage in reversed(output.stages) if stage.jobs)
        cancel = find_scheduler(jobs.scheduler).cancel_command(" ".join(jobs.ids))
        return f"wait; to cancel: {' '.join(cancel)}"
    if problem:
        return "run `jprep status` on a machine that submits jobs: the scheduler does not answer on this one"
    if output.running:
        return _work(output) or "wait: it is running"
    return _next_of_stopped(output)


def _next_of_stopped(output: OutputStatus) -> str:
    """Return what to do about an unfinished output that no command makes now."""
    if not (output.kind or output.stages or _has_traces(Path(output.path))):
        return "nothing: jprep has not written to this folder"
    if any(stage.failed for stage in output.stages):
        return "see the logs, then repeat the command that started it: failed tasks are tried again"
    return _work(output) or RERUN


def _has_traces(folder: Path) -> bool:
    """Return whether jprep has written to a folder without an output, e.g. downloads, or a lock."""
    from jprep.engine.output_kinds import STATE, find_outputs

    return (folder / STATE).exists() or bool(find_outputs(folder))


def _work(output: OutputStatus) -> str:
    """Return how to work on the tasks of an open queue that no scheduler has; "" without one."""
    if any(stage.open and not stage.jobs for stage in output.stages):
        return f"`jprep work {shlex.quote(output.path)} --index I --of N` does one of N shares of the tasks"
    return ""
