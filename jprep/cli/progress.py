"""A progress bar on standard error, where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from jprep.engine.stage import Receipt

_NAMES = {"documents": "reading", "dedup": "comparing", "words": "segmenting"}


class Bar:
    """Watches a build; see `jprep.engine.run.Progress`."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._documents = 0
        self._bar: Any = None

    def begin(self, stage: str, total: int) -> None:
        """Begin a bar for a stage; without a total it only pulses."""
        self._documents = 0
        self._bar = self._progress.add_task(_NAMES.get(stage, stage), total=total or None, documents=0)

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """Move it. Work of an earlier run moves the bar's beginning, or the rate would be too good."""
        self._documents += receipt.counts.get("total.documents", 0)
        self._progress.update(self._bar, advance=weight, documents=self._documents)
        if not fresh:
            self._progress.tasks[self._bar].start_time = self._progress.get_time()


@contextlib.contextmanager
def bar() -> Iterator[Bar | None]:
    """A bar with rate and time left, or None off a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description:<10}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TextColumn("{task.fields[documents]:,} documents"),
        rich.TimeRemainingColumn(elapsed_when_finished=True),
    )
    from rich.console import Console

    with rich.Progress(*columns, console=Console(stderr=True)) as progress:
        yield Bar(progress)
