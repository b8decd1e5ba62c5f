"""Watch a job of a scheduler that does not always answer."""

from __future__ import annotations

import logging
import time

from jprep.engine.schedulers.job import JobState
from jprep.engine.schedulers.scheduler import Scheduler
from jprep.errors import MachineError

_TIMEOUT = 1800.0  # seconds for which a scheduler may not answer
_log = logging.getLogger(__name__)


class JobWatch:
    """Asks a scheduler for jobs, and for a while bears with it if it does not answer.

    Args:
        scheduler: the scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._silent_since: float | None = None

    def states(self, job: str) -> list[JobState] | None:
        """Return what the scheduler still has of a job.

        Args:
            job: its id.

        Returns:
            None if the scheduler does not answer: then the job may still be there. The first time, there is a warning.

        Raises:
            MachineError: it has not answered for 1,800 seconds.
        """
        try:
            found = self._scheduler.states([job])
        except MachineError as error:
            now = time.monotonic()
            if self._silent_since is None:
                _log.warning("%s", error.what)
                self._silent_since = now
            if now - self._silent_since > _TIMEOUT:
                raise
            return None
        self._silent_since = None
        return found
