"""Check trackers before any work: libraries, credentials, servers and buckets."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

from jprep.errors import ConfigError, MachineError
from jprep.io.remote import check_writable, is_url
from jprep.io.remote.errors import classify_error
from jprep.train.job.tracking import TrackerConfig, TrackerConfigs, tracker_configs
from jprep.train.run.log import Say
from jprep.train.trackers.follow import INSTALL

_WHERE = "train.trackers"
_REQUEST_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}


def check_trackers(run: Path, trackers: TrackerConfigs, say: Say) -> None:
    """Check that trackers can be used, so that a wrong token or bucket is found before any work.

    A bucket, or wandb's server, that cannot be reached is only reported: it may be back when there is something to
    send. MLflow's server has to answer.

    Args:
        run: the run directory.
        trackers: `train.trackers`.
        say: called with a message for the user.

    Raises:
        ConfigError: there is no such bucket or team.
        MachineError: a library is missing, a server or bucket refuses the credentials, or MLflow's does not answer.
    """
    for config in tracker_configs(trackers):
        where = f"{_WHERE}, {config.use}"
        if config.use in INSTALL and not importlib.util.find_spec(config.use):
            raise MachineError(f"{config.use} is not installed", where=where, fix=INSTALL[config.use])
        if config.use == "wandb":
            _check_wandb(config, where, say)
        elif config.use == "mlflow":
            _check_mlflow(run, config, where)
        elif is_url(config.log_dir):
            _check_bucket(config.log_dir, say)


def _check_bucket(url: str, say: Say) -> None:
    try:
        check_writable(url)
    except MachineError as error:
        if error.__cause__ is None or classify_error(error.__cause__) != "transient":
            raise
        say(f"tensorboard cannot reach {url} now: {error.what}")


def _check_wandb(config: TrackerConfig, where: str, say: Say) -> None:
    """Log in, and check that the team exists; offline nothing is checked."""
    from jprep.train.trackers.wandb import wandb_mode

    if wandb_mode(config) != "online":
        return
    wandb: Any = importlib.import_module("wandb")
    login = "run `wandb login`, or set WANDB_API_KEY; or leave out mode to log offline"
    try:
        known = wandb.login(prompt=False, verify=True)
        teams = _wandb_entities(wandb) if known and config.entity else {config.entity}
    except (wandb.errors.AuthenticationError, wandb.errors.UsageError) as error:
        raise MachineError(f"wandb refuses the credentials: {error}", where=where, fix=login) from error
    except Exception as error:  # whatever its client raises if the server does not answer
        say(f"wandb cannot reach its server now: {error}")
        return
    if not known:
        raise MachineError("wandb has no API key", where=where, fix=login)
    if config.entity not in teams:
        fix = f"entity: {', '.join(sorted(teams)) or 'leave it out'}"
        raise ConfigError(f"wandb: this account cannot log to {config.entity!r}", where=where, fix=fix)


def _wandb_entities(wandb: Any) -> set[str]:
    viewer = wandb.Api(timeout=20).viewer
    return {name for name in (viewer.username, viewer.entity, *viewer.teams) if name}


def _check_mlflow(run: Path, config: TrackerConfig, where: str) -> None:
    """Ask the server for an experiment; a folder is created when something is logged."""
    from jprep.train.trackers.mlflow import EXPERIMENT, mlflow_client, tracking_uri

    uri = tracking_uri(run, config)
    if uri.startswith("file:"):
        return
    before = {name: os.environ.get(name) for name in _REQUEST_LIMITS}
    os.environ.update({name: value for name, value in _REQUEST_LIMITS.items() if before[name] is None})
    try:
        mlflow_client(uri).get_experiment_by_name(config.project or EXPERIMENT)
    except Exception as error:  # whatever its client raises
        fix = "check log_dir (or MLFLOW_TRACKING_URI), MLFLOW_TRACKING_TOKEN, and that the server runs"
        what = f"MLflow cannot be used: {' '.join(str(error).split())[:300]}"
        raise MachineError(what, where=f"{where}: {uri}", fix=fix) from error
    finally:
        for name in (name for name, value in before.items() if value is None):
            os.environ.pop(name, None)
