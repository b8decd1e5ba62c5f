"""TensorBoard: an event file in the run directory or elsewhere, also in a bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from jprep.errors import JprepError
from jprep.io.atomic import write_atomic
from jprep.io.remote import is_url, join_url, upload_file
from jprep.train.job.config import Job
from jprep.train.job.tracking import TrackerConfig, tracker_configs
from jprep.train.run.events import Event
from jprep.train.trackers import event_file
from jprep.train.trackers.tracker import flatten, hyperparameters, metrics

TENSORBOARD = "tensorboard/events.out.tfevents.0000000000.jprep"
"""A name that TensorBoard finds in a run directory, or in a folder of many."""

_UPLOAD_SECONDS = 30.0
_UPLOAD_RATE = 1e6  # bytes a second at most, since an object is always written as a whole


class TensorBoard:
    """Writes an event file. It depends on the events only: each supervisor writes it again, with the same bytes.

    Args:
        run: the run directory.
        job: the job.
        config: the tracker's options.
        say: called with a message for the user.
    """

    def __init__(self, run: Path, job: Job, config: TrackerConfig, say: Callable[[str], None]) -> None:
        self._job, self._config, self._say = job, config, say
        self._url = event_file_url(job, config) if is_url(config.log_dir) else ""
        self._path = event_file_path(run, job, config)
        self._begun = self._changed = self._failing = False
        self._uploaded = 0.0

    def add(self, events: list[Event]) -> None:
        """Append events; the first call starts a new file."""
        data = b"".join(map(self._record, events))
        if self._begun:
            with self._path.open("ab") as file:
                file.write(data)
        else:
            write_atomic(self._path, self._head(events[0].time) + data)
        self._begun = self._changed = True
        if self._url and time.monotonic() - self._uploaded > self._pause():
            self._try_upload()

    def close(self) -> None:
        """Upload what is not uploaded yet."""
        if self._url and self._changed:
            upload_file(self._path, self._url)

    def _try_upload(self) -> None:
        """Upload the file. An error is reported once, and the next call tries again."""
        self._uploaded = time.monotonic()
        try:
            upload_file(self._path, self._url)
        except JprepError as error:
            if not self._failing:
                self._say(f"tensorboard could not write to {self._url}, and tries again: {error.what}")
            self._failing = True
        else:
            self._changed = self._failing = False

    def _pause(self) -> float:
        return max(_UPLOAD_SECONDS, self._path.stat().st_size / _UPLOAD_RATE)

    def _head(self, when: float) -> bytes:
        """Return the records before the first event."""
        job, config, values = self._job, self._config, hyperparameters(self._job)
        about = {"run": config.name or job.name, "project": config.project, "entity": config.entity}
        lines = [f"**{key}**: {value}" for key, value in about.items() if value]
        lines += [f"**tags**: {', '.join(config.tags)}"] * bool(config.tags)
        shown = msgspec.json.format(msgspec.json.encode(values), indent=2).decode()
        notes = "  \n".join(lines) + "\n\n" + "\n".join(f"    {line}" for line in shown.splitlines())
        head = event_file.header(when) + event_file.text(when, "jprep/run", notes)
        return head + event_file.hyperparameters(when, config.name or job.name, dict(flatten(values)))

    def _record(self, event: Event) -> bytes:
        """Return the record of an event: its scalars, or at a start that later steps are discarded."""
        if event.kind == "start":
            return event_file.restart(event.time, event.step)
        return event_file.scalars(event.time, event.step, metrics(event, self._job))


def event_file_path(run: Path, job: Job, config: TrackerConfig) -> Path:
    """Return the path of the event file: in the run directory, unless `log_dir` is a local folder."""
    if not config.log_dir or is_url(config.log_dir):
        return run / TENSORBOARD
    return run.joinpath(config.log_dir, *_folders(job, config), _file_name(job))


def viewed_folder(run: Path, job: Job) -> Path | None:
    """Return the folder that TensorBoard is started with to see a run; None if the job has no such tracker."""
    config = next((one for one in tracker_configs(job.train.trackers) if one.use == "tensorboard"), None)
    if config is None:
        return None
    path = event_file_path(run, job, config)
    return run if path == run / TENSORBOARD else path.parent.resolve()


def event_file_url(job: Job, config: TrackerConfig) -> str:
    """Return the URL of the event file, if `log_dir` is one."""
    return join_url(config.log_dir, *_folders(job, config), _file_name(job))


def _folders(job: Job, config: TrackerConfig) -> list[str]:
    return [part for part in (config.entity, config.project, config.name or job.name) if part]


def _file_name(job: Job) -> str:
    """Return a name that differs from those of other runs in the same folder."""
    return f"{Path(TENSORBOARD).name}-{job.fingerprint[:8]}"
