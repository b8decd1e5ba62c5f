"""Upload the model of a run to the Hugging Face Hub: every n-th checkpoint, and at the end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from jprep.errors import JprepError
from jprep.hub import check_access
from jprep.hub.client import UnavailableError
from jprep.io.atomic import remove_tree, write_atomic
from jprep.train.exporting import export
from jprep.train.exporting.checkpoint_selection import newest_checkpoint
from jprep.train.job.config import Job
from jprep.train.job.push import PushConfig
from jprep.train.run.events import EventReader
from jprep.train.run.log import Say
from jprep.train.uploads.publish import publish
from jprep.typed_json import decode_json

PUSH = "push.json"
"""The file of a run with its last upload."""

FOLDER = "push"
"""The folder of a run for the export that is being uploaded."""

RETRY_SECONDS = 300.0
"""A failed upload is tried again after this time, or when the next one is due, if that is earlier."""


class LastPush(msgspec.Struct, frozen=True):
    """`push.json`: the last upload of a run.

    Attributes:
        to: the repository.
        step: the step of the checkpoint.
        url: the page of the repository.
        commit: the commit.
        private: whether a new repository was to be private.
        dtype: the dtype of the weights.
    """

    to: str
    step: int
    url: str
    commit: str
    private: bool = True
    dtype: str = "fp32"


class Pusher:
    """Exports and uploads checkpoints in a thread, one at a time. A failure is reported, and tried again later.

    Args:
        run: the run directory.
        job: its job, whose `train.push` names the repository.
        say: called with a message for the user.
    """

    def __init__(self, run: Path, job: Job, say: Say) -> None:
        self._run, self._job, self._push, self._say = run, job, job.train.push, say
        self._events, self._committed = EventReader(run), 0
        self._begun: int | None = None  # checkpoints when the last upload was started
        self._failed_at = 0.0
        self._thread: threading.Thread | None = None

    def poll(self) -> None:
        """Start an upload if one is due. Called every few seconds while a worker runs; returns at once."""
        with contextlib.suppress(OSError):  # a transient error: the next call reads the events again
            self._committed += sum(event.kind == "checkpoint" for event in self._events.new())
        if self._begun is None:  # checkpoints of earlier starts are not due again
            self._begun = self._committed
        if self._is_due() and not self._busy():
            self._begun = self._committed
            self._start()

    def finish(self, *, complete: bool, stopped: Callable[[], bool]) -> None:
        """Upload the last checkpoint of a complete run, and wait for it; otherwise abandon what is being uploaded."""
        self._wait(lambda: stopped() or not complete)
        if complete and not stopped() and self._newest() != self._last_step():
            self._say(f"uploading the model to {self._push.to}")
            self._start()
            self._wait(stopped)
        if self._busy():
            self._say(f"the upload to {self._push.to} is not finished; the same command continues it")
        elif complete and self._newest() != self._last_step():
            again = f"jprep export {self._run} && jprep push {self._run / 'export'} --to {self._push.to}"
            self._say(f"the model is not uploaded; the same command tries it again, or:  {again}")

    def _is_due(self) -> bool:
        every, begun = self._push.every, self._begun or 0
        if self._failed_at and time.monotonic() - self._failed_at > RETRY_SECONDS:
            return True
        return bool(every) and self._committed // every > begun // every

    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _wait(self, stopped: Callable[[], bool]) -> None:
        while self._busy() and not stopped():
            time.sleep(0.05)

    def _start(self) -> None:
        self._failed_at = 0.0
        self._thread = threading.Thread(target=self._upload, name="jprep-push", daemon=True)
        self._thread.start()

    def _upload(self) -> None:
        """Export and upload the newest checkpoint; report the result."""
        push, step = self._push, 0
        try:
            if (step := self._newest()) == self._last_step():
                return
            folder = export(self._run, self._run / FOLDER, which=str(step), dtype=push.dtype)
            message = f"Upload {self._job.name}, step {step}, with jprep"
            done = publish(folder, push.to, private=push.private, message=message, progress=False)
            last = LastPush(push.to, step, done.url, done.commit, push.private, push.dtype)
            write_atomic(self._run / PUSH, msgspec.json.format(msgspec.json.encode(last), indent=1))
            self._say(f"uploaded step {step:,} to {done.url}")
            remove_tree(folder)
        except Exception as error:  # whatever it is, training continues
            self._failed_at = time.monotonic()
            self._say(f"the upload of step {step:,} to {push.to} failed, and is tried again: {_short(error)}")

    def _newest(self) -> int:
        """Return the step of the newest checkpoint; 0 if there is none."""
        with contextlib.suppress(JprepError):
            return newest_checkpoint(self._run, self._job).step
        return 0

    def _last_step(self) -> int:
        """Return the step that was last uploaded with the present settings; 0 if there is none."""
        with contextlib.suppress(OSError, ValueError):
            last = decode_json((self._run / PUSH).read_bytes(), LastPush)
            if (last.to, last.dtype) == (self._push.to, self._push.dtype):
                return last.step
        return 0


def check_destination(push: PushConfig, say: Say) -> None:
    """Check the repository and the token of uploads, before anything is trained; create the repository.

    A Hub that cannot be reached is only reported: uploads are tried again later.

    Args:
        push: the section.
        say: called with a message for the user.

    Raises:
        ConfigError: a wrong name, or a token that is missing, invalid or without the right to write there.
        MachineError: the library is not installed.
    """
    if not push.to:
        return
    try:
        check_access(push.to, private=push.private, create=True)
    except UnavailableError as error:
        say(f"{error.what}; uploads to {push.to} are tried again later")


def _short(error: Exception) -> str:
    return error.what if isinstance(error, JprepError) else f"{type(error).__name__}: {error}"
