"""Weights & Biases: one of its runs for each run directory, continued by each further call of `jprep train`."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import msgspec

from jprep.io.atomic import write_atomic
from jprep.train.job.config import Job
from jprep.train.job.tracking import FORBIDDEN, TrackerConfig
from jprep.train.run.events import Event
from jprep.train.trackers.tracker import first_fingerprint, hyperparameters, metrics
from jprep.typed_json import decode_json

PROJECT = "jprep"
"""The default project."""

STATE = "wandb.json"
"""The file of a run directory that says which steps are logged."""

_SETTINGS = {"silent": True, "console": "off", "disable_git": True, "save_code": False, "disable_job_creation": True}


class _State(msgspec.Struct):
    """`wandb.json`: the id of the run in Weights & Biases, and the last step that was logged."""

    id: str
    step: int


class Wandb:
    """Logs to Weights & Biases. Steps that are logged already stay as they are.

    Args:
        run: the run directory.
        job: the job.
        config: the tracker's options.
    """

    def __init__(self, run: Path, job: Job, config: TrackerConfig) -> None:
        self._job, self._path = job, run / STATE
        self._id = f"{FORBIDDEN.sub('-', job.name)}-{first_fingerprint(job)[:8]}"  # the name of a fold has a slash
        self._state, self._last = self._read_state(), 0
        folder = run / config.log_dir
        folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = importlib.import_module("wandb").init(
            project=config.project or PROJECT,
            entity=config.entity or None,
            id=self._id,
            name=config.name or job.name,
            tags=config.tags or None,
            resume="allow",
            dir=str(folder),
            mode=wandb_mode(config),
            config=hyperparameters(job),
            allow_val_change=True,
            settings=_SETTINGS,
        )
        # On its server the run may have more steps than this machine knows of: the disk may be a new one.
        self._state.step = max(self._state.step, int(getattr(self._run, "starting_step", 0)) - 1)

    def add(self, events: list[Event]) -> None:
        """Log metrics."""
        steps: dict[int, dict[str, float]] = {}
        for event in events:
            if event.step > self._state.step and (found := metrics(event, self._job)):
                steps.setdefault(event.step, {}).update(found)
        for step in sorted(steps):
            self._run.log(steps[step], step=step)
        if steps:
            # wandb writes a step when a later one is logged, or at the end: validation metrics may be added until then.
            self._last = max(steps)
            self._write_state(self._last - 1)

    def close(self) -> None:
        """Finish its run, and wait until it is sent."""
        self._run.finish()
        if self._last:
            self._write_state(self._last)

    def _write_state(self, step: int) -> None:
        self._state.step = max(step, self._state.step)
        write_atomic(self._path, msgspec.json.encode(self._state))

    def _read_state(self) -> _State:
        try:
            state = decode_json(self._path.read_bytes(), _State)
        except (OSError, ValueError):  # the first start, or a damaged file
            return _State(self._id, -1)
        return state if state.id == self._id else _State(self._id, -1)


def wandb_mode(config: TrackerConfig) -> str:
    """Return `online`, `offline` or another mode of wandb."""
    return config.mode or os.environ.get("WANDB_MODE", "") or "offline"
