"""What `jprep status` shows of training runs."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jprep.cli.common.output import echo
from jprep.cli.common.shell_command import shell_command, shell_quote
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.train.results.summary import Figures, RunSummary

_KIND = "a training run (job.json)"
RERUN = "repeat the command that started it"
"""What to do where the command is not known."""


def plain_run(run: RunSummary) -> dict[str, object]:
    """Return a run as plain data, with the fields of other outputs."""
    found = msgspec.to_builtins(run)
    state = {"finished": run.state == "finished", "running": run.state == "running"}
    head = {"path": found.pop("path"), "kind": _KIND, **state, "stages": []}
    return {**head, "jobs": [], "jobs_error": "", "next": next_of_run(run), "run": found}


def show_run(run: RunSummary) -> None:
    """Print state, step, figures and newest checkpoint of a run, and what to do."""
    shown: dict[str, str] = {"state": "training now" if run.state == "running" else run.state}
    shown |= {"step": f"{run.step:,} of {run.steps:,}"} if run.steps else {}
    shown |= {"loss": _figures(run.loss)} if run.loss else {}
    shown |= {"validation": _figures(run.validation, named=True)} if run.validation else {}
    shown |= {"checkpoint": run.checkpoint or "none"} if run.steps else {}
    if run.state == "running" and run.last_sign is not None:
        shown["last sign of life"] = f"{max(0.0, time.time() - run.last_sign):,.0f} s ago"
    if run.reason:
        lines = filter(None, map(str.strip, run.reason.splitlines()))
        shown["reason"] = "; ".join(one_line(" ".join(line.split())) for line in lines)
    echo(f"{run.path}: {_KIND}")
    for name, value in shown.items():
        echo(f"  {name}: {value}")
    echo(f"  next: {next_of_run(run)}")


def next_of_run(run: RunSummary) -> str:
    """Return what to do: the command that exports a finished run or resumes another one, as a shell takes it."""
    if run.state == "finished":
        return _next_of_finished(run)
    if run.state == "running":
        return "wait: it is training"
    if run.command is None:
        return RERUN
    command = shell_command(*run.command.words)
    return command if Path(run.command.folder) == Path.cwd() else f"cd {shell_quote(run.command.folder)} && {command}"


def _next_of_finished(run: RunSummary) -> str:
    from jprep.train.run.directory import EXPORT, is_fold

    if is_fold(Path(run.path)):
        return "nothing: it is finished"
    if (step := _exported_step(Path(run.path))) is not None:
        return f"nothing: it is finished, and its step {step:,} is exported to {Path(run.path) / EXPORT}"
    return shell_command("export", run.path, *(["--which", "best"] if run.best_kept else []))


def _exported_step(run: Path) -> int | None:
    """Return the step in a finished run's export; None without one, or if an earlier checkpoint was exported.

    Without any checkpoint there is nothing newer to export.
    """
    from jprep.errors import JprepError
    from jprep.train.exporting.checkpoint_selection import final_steps
    from jprep.train.exporting.manifest import MANIFEST, read_export
    from jprep.train.run.directory import EXPORT, read_job

    if (run / EXPORT / MANIFEST).exists():
        with contextlib.suppress(JprepError):
            step, final = read_export(run / EXPORT).step, final_steps(run, read_job(run))
            return step if step in final or not final else None
    return None


def _figures(found: Figures, *, named: bool = False) -> str:
    values = (f"{one_line(name)} {value:.4f}" if named else f"{value:.4f}" for name, value in found.values.items())
    return f"{', '.join(values)} at step {found.step:,}"
