"""What a run does in the background, which its supervisor starts and watches: uploads, and samples of text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from jprep.train.job.config import Job
from jprep.train.run.log import Say


class BackgroundTask(Protocol):
    """Uploads outputs of a run, or samples text of its checkpoints.

    Its work happens in a thread, and its failures never end the run.
    """

    def poll(self) -> None:
        """Start what is due. Called every few seconds while a worker runs; returns at once."""

    def finish(self, *, complete: bool, stopped: Callable[[], bool]) -> None:
        """Do the rest, and wait for it.

        Args:
            complete: whether the run has reached its last step; otherwise it was stopped, or has failed.
            stopped: whether the user wants to stop now.
        """


def background_tasks(run: Path, job: Job, say: Say) -> list[BackgroundTask]:
    """Return what a job asks for: uploads, and samples of text.

    Args:
        run: the run directory.
        job: its job.
        say: called with a message for the user.
    """
    found = list[BackgroundTask]()
    if job.train.push.to:
        from jprep.train.uploads.push import Pusher  # it loads tokenizers, as samples do

        found.append(Pusher(run, job, say))
    if job.train.samples.prompts:
        from jprep.train.inference.checkpoint_samples import TextSampler

        found.append(TextSampler(run, job, say))
    return found
