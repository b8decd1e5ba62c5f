"""The trackers of a recipe: `train.trackers`."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from jprep.errors import ConfigError
from jprep.io.remote.objects import has_password

TrackerName = Literal["tensorboard", "wandb", "mlflow"]

_WHERE = "train.trackers"
_LONGEST = 128  # characters of a name in Weights & Biases

FORBIDDEN = re.compile(r"[/\\#?%:\x00-\x1f]")
"""Characters that Weights & Biases refuses in names and ids. Names are folders of TensorBoard, too."""


class TrackerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tracker with options.

    Attributes:
        use: the tracker.
        project: wandb's project (`jprep` by default), MLflow's experiment (`jprep`), or a folder below `log_dir`.
        entity: wandb's team or user, MLflow's user, or a folder above that of the project.
        name: the name of the run; by default that of jprep's run. With folds, `-fold-0`, `-fold-1` … are added.
        tags: tags of the run. For MLflow `key=value`, or `key` with the value `true`.
        log_dir: TensorBoard: where the event file is written, a folder or a URL such as `gs://BUCKET/logs`; by default
            `tensorboard/` in the run directory. wandb: the folder of its files; by default the run directory. MLflow:
            the tracking URI or a folder; by default MLFLOW_TRACKING_URI, else `mlruns/` in the run directory.
        mode: wandb: `online` or `offline`; by default the variable WANDB_MODE, else `offline`.
    """

    use: TrackerName
    project: str = ""
    entity: str = ""
    name: str = ""
    tags: list[str] = []
    log_dir: str = ""
    mode: Literal["", "online", "offline"] = ""


TrackerConfigs = list[TrackerName | TrackerConfig]
"""The type of `train.trackers`."""


def tracker_configs(trackers: TrackerConfigs) -> list[TrackerConfig]:
    """Return the trackers, each with its options."""
    return [TrackerConfig(use=one) if isinstance(one, str) else one for one in trackers]


def check_tracker_configs(trackers: TrackerConfigs) -> None:
    """Check the options of trackers by themselves.

    Raises:
        ConfigError: a tracker is given twice, or an option is not valid for it.
    """
    seen = set[str]()
    for one in tracker_configs(trackers):
        if one.use in seen:
            raise ConfigError(f"the tracker {one.use} is given twice", where=_WHERE, fix="remove one of them")
        seen.add(one.use)
        _check_names(one)
        if one.mode and one.use != "wandb":
            raise ConfigError(f"{one.use} has no mode", where=_WHERE, fix="remove mode; it is for wandb")
        _check_log_dir(one)


def _check_log_dir(tracker: TrackerConfig) -> None:
    if has_password(tracker.log_dir):
        fix = "remove it; MLflow reads MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        what = f"log_dir of {tracker.use} has a password, which job.json would show"
        raise ConfigError(what, where=_WHERE, fix=fix)
    if "://" in tracker.log_dir and tracker.use == "wandb":
        what = "wandb keeps its files in a local folder"
        raise ConfigError(what, where=_WHERE, fix='a folder as log_dir; mode = "online" sends them to its server')


def _check_names(tracker: TrackerConfig) -> None:
    for key in ("project", "entity", "name"):
        value: str = getattr(tracker, key)
        if FORBIDDEN.search(value) or len(value) > _LONGEST or value in (".", ".."):
            what = f"{value!r} cannot be the {key} of a tracker"
            fix = f"at most {_LONGEST} characters, and none of / \\ # ? % :"
            raise ConfigError(what, where=f"{_WHERE}, {tracker.use}", fix=fix)
