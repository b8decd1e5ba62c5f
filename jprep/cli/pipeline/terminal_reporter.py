"""Print the progress of a recipe's steps to the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.cli.common.execution import open_executor
from jprep.cli.common.output import echo, note
from jprep.cli.common.shell_command import current_words
from jprep.cli.corpus.download_progress import DownloadProgress
from jprep.cli.model.train import run_training, show_figures, show_folds
from jprep.pipeline.run import RunPlan, RunReporter
from jprep.pipeline.steps import Step

if TYPE_CHECKING:
    from jprep.engine.runner import Executor, ProgressReporter
    from jprep.train.launcher.launch import PreparedRun


class TerminalReporter(RunReporter):
    """Results go to standard output, progress and notes to standard error."""

    def __init__(self) -> None:
        self._downloads = DownloadProgress()

    def step_started(self, plan: RunPlan, step: Step) -> None:
        """Print the step's number, name and output directory."""
        echo(f"[{plan.steps.index(step) + 1}/{len(plan.steps)}] {step}: {plan.output(step)}")

    def step_finished(self, step: Step, seconds: float) -> None:
        """Print how long the step took."""
        note(f"      done in {seconds:.1f} s")

    def result(self, text: str) -> None:
        """Print what the step made."""
        echo(f"      {text}")

    def note(self, text: str) -> None:
        """Print a note."""
        note(text)

    def download_started(self, url: str, size: int, path: Path) -> None:
        """Print what is downloaded, and how large it is."""
        known = f"{size:,} bytes" if size >= 0 else "size unknown"
        echo(f"      downloading {url}, {known}, to {path}")

    def downloading(self, name: str, done: int, total: int) -> None:
        """Show how far a download is."""
        self._downloads(name, done, total)

    @contextlib.contextmanager
    def executor(self, plan: RunPlan) -> Iterator[tuple[Executor, ProgressReporter]]:
        """Give the plan's executor, with a progress bar and graceful interruption."""
        with open_executor(plan.workers, plan.executor, plan.recipe.executor) as running:
            yield running

    def command(self) -> list[str]:
        """Return the arguments of this process."""
        return current_words()

    def train(self, prepared: PreparedRun) -> int:
        """Train with a progress bar."""
        return run_training(prepared)

    def trained(self, prepared: PreparedRun) -> None:
        """Print the run's figures."""
        show_figures(prepared)

    def folds_trained(self, run: Path) -> None:
        """Print the mean of the folds' figures."""
        show_folds(run, as_json=False)
