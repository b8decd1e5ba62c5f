"""Save a rank's checkpoints: in the worker's own thread, or in the background while training continues."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from jprep.train.run.checkpoints import CheckpointStore, Rank


class CheckpointSaver:
    """Saves checkpoints, one at a time.

    Args:
        store: the run's checkpoints.
        rank: this process among those that write.
        on_saved: called with the step and the seconds that saving took, after each commit.
    """

    def __init__(self, store: CheckpointStore, rank: Rank, on_saved: Callable[[int, float], None]) -> None:
        self._store, self._rank, self._on_saved = store, rank, on_saved
        self._pool = ThreadPoolExecutor(1, "jprep-save")
        self._pending: Future[None] | None = None
        self._last = time.monotonic()

    @property
    def minutes_since_last(self) -> float:
        """Minutes since the last checkpoint was saved or submitted, or since the start."""
        return (time.monotonic() - self._last) / 60

    @contextlib.contextmanager
    def saving(self, step: int, loss: float | None, figures: Mapping[str, float]) -> Iterator[Path]:
        """Yield a folder to write into; commit it as the step's checkpoint after the block."""
        begun = time.monotonic()
        with self._store.saving(step, loss, self._rank, figures) as folder:
            yield folder
        self._last = time.monotonic()
        self._on_saved(step, self._last - begun)

    def submit(self, step: int, loss: float | None, figures: Mapping[str, float], fill: Callable[[Path], None]) -> None:
        """Save a checkpoint in a thread. `fill` is called there with the folder to write into."""

        def commit() -> None:
            with self.saving(step, loss, figures) as folder:
                fill(folder)

        self._last = time.monotonic()
        self._pending = self._pool.submit(commit)

    def settle(self, *, wait: bool = True) -> None:
        """Raise the error of the last submitted checkpoint, if there is one.

        Args:
            wait: wait until it is saved; otherwise do nothing while it is being saved.
        """
        if self._pending and (wait or self._pending.done()):
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Wait for the thread: whoever releases the run must not be saving any more."""
        self._pool.shutdown()
