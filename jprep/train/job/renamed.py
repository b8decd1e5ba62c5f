"""Renamed keys: the old names are accepted for one release, with a warning that names the new one."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from jprep.config import parse_config
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from jprep.train.backend import Backend
    from jprep.train.job.config import Job, TrainConfig

RENAMED_OPTIONS = {"rows": "micro_batch", "recompute": "gradient_checkpointing"}
"""Old name → new name, of the options of jprep's own backends."""

_BACKENDS = ("torch", "deepspeed", "flax", "fairseq-xla")

_log = logging.getLogger(__name__)


def parse_options(backend: Backend, options: Mapping[str, Any]) -> Any:
    """Check a backend's raw options. Renamed ones are accepted under their old names, with a warning.

    Args:
        backend: the backend.
        options: its options, from a recipe or `--set`.

    Returns:
        The backend's `Options`.

    Raises:
        ConfigError: an unknown option, a value of the wrong type, or an option given under both names.
    """
    current = _current_names(options, backend.name, backend.Options)
    return parse_config(current, backend.Options, where=f"[train.backend.{backend.name}]")


def rename_job_options(job: Job) -> Job:
    """Return a stored job with its backend options under their current names."""
    if job.backend not in _BACKENDS or not RENAMED_OPTIONS.keys() & job.options.keys():
        return job
    options = {RENAMED_OPTIONS.get(name, name): value for name, value in job.options.items()}
    return msgspec.structs.replace(job, options=options)


def rename_schedule(config: TrainConfig, *, warn: bool = False) -> TrainConfig:
    """Return a section whose schedule has the key `total` instead of its former name `steps`."""
    if not config.schedule.steps:
        return config
    if warn:
        _log.warning(
            "train.schedule.steps was renamed to train.schedule.total; the old name works in this release only"
        )
    schedule = msgspec.structs.replace(config.schedule, total=config.schedule.steps, steps=0)
    return msgspec.structs.replace(config, schedule=schedule)


def _current_names(options: Mapping[str, Any], backend: str, known: type[Any]) -> dict[str, Any]:
    """Return options under their current names. A backend that still has an option of the old name keeps it."""
    fields = getattr(known, "__struct_fields__", ())
    found = dict(options)
    for old, new in RENAMED_OPTIONS.items():
        if old not in found or old in fields or new not in fields:
            continue
        where = f"train.backend.{backend}.{old}"
        if new in found:
            raise ConfigError(f"given twice: {old} is the old name of {new}", where=where, fix=f"remove {old}")
        found[new] = found.pop(old)
        _warn(where, new)
    return found


@functools.cache
def _warn(where: str, new: str) -> None:
    """Log the warning once per process."""
    _log.warning("%s was renamed to %s; the old name works in this release only", where, new)
