"""Pass the events of a run on to its trackers, in a thread beside the supervisor."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jprep.train.job.config import Job
from jprep.train.job.tracking import TrackerConfig, tracker_configs
from jprep.train.run.events import EventReader
from jprep.train.run.log import Say
from jprep.train.trackers.tensorboard import TensorBoard
from jprep.train.trackers.tracker import Tracker

INSTALL = {"wandb": "pip install wandb", "mlflow": "pip install mlflow-skinny"}
"""Module of a tracker's library → how it is installed."""

_UPDATE_SECONDS = 2.0
_CLOSE_SECONDS = 60.0  # to send what is left at the end of a run


class Trackers:
    """The trackers of a job. One that fails is disabled with a message, and training continues.

    Args:
        run: the run directory.
        job: the job.
        say: called with a message for the user.
    """

    def __init__(self, run: Path, job: Job, say: Say) -> None:
        self._follower, self._say = EventReader(run), say
        self._trackers: dict[str, Tracker] = {}
        for config in tracker_configs(job.train.trackers):
            if config.use in INSTALL and not importlib.util.find_spec(config.use):
                say(f"{config.use} is not installed: run `{INSTALL[config.use]}`, or remove it from train.trackers")
                continue
            with self._trying(config.use):
                self._trackers[config.use] = open_tracker(run, job, config, say)

    def update(self) -> None:
        """Pass on new events."""
        try:
            events = self._follower.new()
        except OSError:  # a transient error: the next call reads the events again
            return
        for name, tracker in list(self._trackers.items() if events else ()):
            with self._trying(name):
                tracker.add(events)

    def close(self) -> None:
        """Pass on the remaining events, and finish."""
        self.update()
        for name, tracker in list(self._trackers.items()):
            with self._trying(name):
                tracker.close()

    @contextlib.contextmanager
    def _trying(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a tracker's library raises
            self._trackers.pop(name, None)
            self._say(f"{name} failed and is disabled until the next start: {error}")


def open_tracker(run: Path, job: Job, config: TrackerConfig, say: Say) -> Tracker:
    """Return a tracker. Its library is imported now.

    Args:
        run: the run directory.
        job: the job.
        config: the tracker's options.
        say: called with a message for the user.
    """
    if config.use == "wandb":
        from jprep.train.trackers.wandb import Wandb

        return Wandb(run, job, config)
    if config.use == "mlflow":
        from jprep.train.trackers.mlflow import MLflow

        return MLflow(run, job, config)
    return TensorBoard(run, job, config, say)


@contextlib.contextmanager
def track_run(run: Path, job: Job, say: Say, stops: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Let the trackers of a job follow its run during the block, in a thread: a slow server delays no training.

    At the end the thread gets a minute to send what is left, or until a further stop signal.

    Args:
        run: the run directory.
        job: the job.
        say: called with a message for the user.
        stops: returns the number of stop signals so far.
    """
    if not job.train.trackers:
        yield
        return
    ended = threading.Event()

    def follow() -> None:
        with contextlib.closing(Trackers(run, job, say)) as trackers:
            while not ended.wait(_UPDATE_SECONDS):
                trackers.update()

    thread = threading.Thread(target=follow, name="jprep-trackers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        before, until = stops(), time.monotonic() + _CLOSE_SECONDS
        while thread.is_alive() and stops() == before and time.monotonic() < until:
            thread.join(0.05)
        if thread.is_alive():
            names = ", ".join(one.use for one in tracker_configs(job.train.trackers))
            say(f"the trackers ({names}) have not finished: the next start sends the rest")
