"""Do a share of the queues below a directory, of those that are open now or also of later ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from jprep.engine.output_kinds import find_outputs
from jprep.engine.queue.manifest import read_queue
from jprep.engine.queue.reader import QueueReader
from jprep.engine.queue.share import Share, ShareResult, missing_tasks
from jprep.engine.queue.survey import find_queues

STOPPED = 99
"""The exit code of a share that was told to stop after some progress; Grid Engine starts such a job again."""

_POLL_SECONDS = 2.0  # between two polls for the next queue
_FIRST_RECHECK_SECONDS = 60.0  # before a queue whose share was done is checked again; doubled each time
_IDLE = 1800.0  # seconds without a new queue after which a worker no longer follows


class ShareWorker:
    """Does one share of every queue that it finds.

    Args:
        folder: the output directory, or the folder of a recipe's outputs; it need not exist yet.
        index: number of the share.
        of: number of shares.
        workers: number of processes.
        stopping: returns whether it was told to stop.
        report: receives the result of each share.
    """

    def __init__(
        self,
        folder: Path,
        index: int,
        of: int,
        workers: int,
        stopping: Callable[[], bool],
        report: Callable[[ShareResult], object],
    ) -> None:
        self._folder, self._index, self._of, self._workers = folder, index, of, workers
        self._stopping, self._report = stopping, report
        self._seen: dict[str, int] = {}  # queue: number of later checks at it
        self._ended = time.monotonic()

    @property
    def found(self) -> bool:
        """Whether there was a queue."""
        return bool(self._seen)

    def work(self, only: str | None = None) -> int:
        """Work on the queues that are open now; return the exit code. The working directory becomes that of the queue.

        Args:
            only: id of the queue; None for all.

        Raises:
            JprepError: a queue is damaged, or of another version of jprep.
        """
        code = 0
        for path in find_queues(self._folder) if self._folder.is_dir() else []:
            manifest = read_queue(path)
            if manifest is None or only not in (None, manifest.id):
                continue
            if manifest.id not in self._seen or self._has_more(QueueReader(path, manifest)):
                self._seen[manifest.id] = 0
                code = self._do(QueueReader(path, manifest)) or code
                self._ended = time.monotonic()
        return code

    def follow(self, note: Callable[[str], object]) -> int:
        """Work on queues until the output is finished, or no queue is opened any more; return the exit code.

        Args:
            note: receives a message if it ends because there are no more queues.

        Raises:
            JprepError: see `work`.
        """
        while not self._stopping():
            self.work()
            if self._is_finished():
                return 0
            if time.monotonic() - self._ended > _IDLE:
                note(f"no new tasks for {_IDLE / 60:.0f} minutes; the command that queues them may have failed")
                return 1
            time.sleep(_POLL_SECONDS)
        return STOPPED

    def _has_more(self, reader: QueueReader) -> bool:
        """Return whether this share has tasks again: the waiting command discards damaged receipts."""
        checks = self._seen[reader.manifest.id]
        if time.monotonic() - self._ended < _FIRST_RECHECK_SECONDS * 2**checks:
            return False
        self._seen[reader.manifest.id] += 1
        return bool(missing_tasks(reader, self._index, self._of))

    def _is_finished(self) -> bool:
        """Return whether the output is finished. A recipe's folder is not: another output may be begun."""
        kinds = find_outputs(self._folder) if self._folder.is_dir() else []
        return any(each.finished for each in kinds if not each.kind.container)

    def _do(self, reader: QueueReader) -> int:
        if (home := Path(reader.manifest.folder)).is_dir():  # relative paths of inputs begin there
            os.chdir(home)
        result = Share(reader, self._index, self._of, self._workers, self._stopping).run()
        self._report(result)
        if result.complete:
            return 0
        return STOPPED if result.interrupted and result.done else 1
