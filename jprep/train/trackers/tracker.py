"""What all trackers share: their interface, the names of metrics, and the hyperparameters of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from jprep.train.job.config import Job
from jprep.train.run.events import Event

_GROUPS = {"log": "train", "validation": "eval"}
_NAMES = {"lr": "learning_rate", "norm": "grad_norm"}
"""Names of metrics in events → those that the Trainer of transformers reports to trackers."""

_NOT_HYPERPARAMETERS = ("trackers", "backend", "model", "max_restarts", "silent_minutes", "log_every", "checkpoint")


class Tracker(Protocol):
    """Receives the events of a run."""

    def add(self, events: list[Event]) -> None:
        """Log further events, in order."""

    def close(self) -> None:
        """Finish logging."""


def metrics(event: Event, job: Job) -> dict[str, float]:
    """Return the metrics of an event under the names that users of trackers know, e.g. `train/loss`, `eval/loss`."""
    if not (group := _GROUPS.get(event.kind)):
        return {}
    found = {_NAMES.get(name, name): value for name, value in event.figures.items()}
    if group == "train":
        found["epoch"] = job.epochs(event.step)
    return {f"{group}/{name}": float("nan") if value is None else value for name, value in found.items()}


def hyperparameters(job: Job) -> dict[str, Any]:
    """Return the hyperparameters of a job: the keys of `[train]`, the model's config, and the backend's options."""
    section = msgspec.to_builtins(job.train)
    kept = {key: value for key, value in section.items() if key not in _NOT_HYPERPARAMETERS}
    about = {"steps": job.steps, "parameters": job.parameters, "fingerprint": job.fingerprint}
    return kept | about | {"model": job.model, "backend": job.backend, "options": job.options}


def first_fingerprint(job: Job) -> str:
    """Return the fingerprint that the run began with: it changes when a run is extended."""
    return [*job.earlier, job.fingerprint][0]


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    """Yield the leaves of nested tables under dotted names; lists as JSON."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        elif isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{key}", value
        elif value is not None:
            yield f"{prefix}{key}", msgspec.json.encode(value).decode()
