"""MLflow: one of its runs for each run directory, continued by each further call of `jprep train`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from jprep.io.remote import is_url
from jprep.train.job.config import Job
from jprep.train.job.tracking import TrackerConfig
from jprep.train.run.events import Event
from jprep.train.trackers.tracker import first_fingerprint, flatten, hyperparameters, metrics

EXPERIMENT = "jprep"
"""The default experiment."""

_FINGERPRINT, _RUN = "jprep.fingerprint", "jprep.run"
_METRICS, _PARAMETERS, _LENGTH = 1000, 100, 6000  # limits of one call, and of a parameter's characters


class MLflow:
    """Logs to MLflow. Steps that are logged already stay as they are.

    Args:
        run: the run directory.
        job: the job.
        config: the tracker's options.
    """

    def __init__(self, run: Path, job: Job, config: TrackerConfig) -> None:
        self._job, self._entities = job, importlib.import_module("mlflow.entities")
        self._client = mlflow_client(tracking_uri(run, config))
        self._id = self._find(config) or self._create(config)
        self._client.update_run(self._id, status="RUNNING")
        self._done = self._steps_done()

    def add(self, events: list[Event]) -> None:
        """Log metrics."""
        rows = self._new_metrics(events)
        while part := list(islice(rows, _METRICS)):
            self._client.log_batch(self._id, metrics=part)

    def close(self) -> None:
        """Mark its run as finished."""
        self._client.set_terminated(self._id)

    def _new_metrics(self, events: list[Event]) -> Iterator[Any]:
        for event in events:
            for name, value in metrics(event, self._job).items():
                if event.step > self._done.get(name, -1):
                    self._done[name] = event.step
                    yield self._entities.Metric(name, value, int(event.time * 1000), event.step)

    def _find(self, config: TrackerConfig) -> str:
        """Return the id of the run that an earlier call has created; "" if there is none."""
        experiment = self._client.get_experiment_by_name(config.project or EXPERIMENT)
        if experiment is None:
            return ""
        wanted = f"tags.`{_RUN}` = '{_identity(self._job)}'"
        found = self._client.search_runs([experiment.experiment_id], wanted, max_results=1)
        return str(found[0].info.run_id) if found else ""

    def _create(self, config: TrackerConfig) -> str:
        name, client = config.project or EXPERIMENT, self._client
        experiment = client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else client.create_experiment(name)
        created = client.create_run(number, run_name=config.name or self._job.name, tags=self._tags(config))
        values = iter([self._entities.Param(key, value) for key, value in _parameters(self._job)])
        while part := list(islice(values, _PARAMETERS)):
            client.log_batch(created.info.run_id, params=part)
        return str(created.info.run_id)

    def _tags(self, config: TrackerConfig) -> dict[str, str]:
        split = (tag.partition("=") for tag in config.tags)
        tags = {key: value if equals else "true" for key, equals, value in split}
        user = {"mlflow.user": config.entity} if config.entity else {}
        return tags | user | {_RUN: _identity(self._job), _FINGERPRINT: self._job.fingerprint}

    def _steps_done(self) -> dict[str, int]:
        """Return the last step of each metric that is logged already."""
        names = self._client.get_run(self._id).data.metrics
        return {name: max(one.step for one in self._client.get_metric_history(self._id, name)) for name in names}


def tracking_uri(run: Path, config: TrackerConfig) -> str:
    """Return the URI of MLflow's store or server."""
    given = config.log_dir or os.environ.get("MLFLOW_TRACKING_URI", "")
    if is_url(given) or given.startswith(("file:", "sqlite:")):
        return given
    return (run / (given or "mlruns")).resolve().as_uri()


def mlflow_client(uri: str) -> Any:
    """Return a client of a store or server."""
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow asks for it since it prefers databases
    return importlib.import_module("mlflow.tracking").MlflowClient(tracking_uri=uri, registry_uri=_registry(uri))


def _registry(uri: str) -> str | None:
    """Return a registry of models that needs no database: none is used, but the client wants one."""
    return None if uri.startswith(("http:", "https:", "file:")) else "file:///nowhere"


def _identity(job: Job) -> str:
    """Return what identifies a run in MLflow: it stays when the run is extended."""
    return f"{job.name}-{first_fingerprint(job)}".replace("'", "")


def _parameters(job: Job) -> Iterator[tuple[str, str]]:
    for key, value in flatten(hyperparameters(job)):
        yield key, str(value)[:_LENGTH]
