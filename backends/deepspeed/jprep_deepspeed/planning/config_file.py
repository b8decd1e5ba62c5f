"""Read a DeepSpeed configuration of the user from its file, and translate keys that DeepSpeed has renamed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jprep.errors import ConfigError
from jprep_deepspeed.options import SECTION
from jprep_deepspeed.planning.config_keys import FORMER_THREADS, RENAMED_OFFLOADS, THREADS

_ZERO = "zero_optimization"


class ConfigFile(NamedTuple):
    """A configuration as its file has it, with today's keys.

    Attributes:
        values: the configuration.
        notes: a sentence for each key that was translated.
    """

    values: dict[str, Any]
    notes: list[str]


def read_config_file(path: str) -> ConfigFile:
    """Read a configuration.

    Raises:
        ConfigError: it cannot be read, is not a JSON object, or has the former and the present name of a key with
            different values.
    """
    raw, notes = _read(path), list[str]()
    if isinstance(zero := raw.get(_ZERO), Mapping):
        raw = raw | {_ZERO: _translate(zero, path, notes)}
    if isinstance(files := raw.get("aio"), Mapping) and FORMER_THREADS in files:
        kept = {key: value for key, value in files.items() if key != FORMER_THREADS}
        raw = raw | {"aio": {THREADS: files[FORMER_THREADS], **kept}}
        notes.append(f"{FORMER_THREADS} of {Path(path).name} is used as {THREADS}, its name in DeepSpeed today")
    return ConfigFile(raw, notes)


def _translate(zero: Mapping[str, Any], path: str, notes: list[str]) -> dict[str, Any]:
    """Return the section with the former keys of offloads replaced."""
    found = {key: value for key, value in zero.items() if key not in RENAMED_OFFLOADS}
    for key, section in RENAMED_OFFLOADS.items():
        if key not in zero or zero[key] in (False, None, "auto"):
            continue
        if zero[key] is not True:
            what = f"{_ZERO}.{key} = {json.dumps(zero[key])} is not true or false"
            raise ConfigError(what, where=path, fix=f'"{section}": {{"device": "cpu"}} has replaced it')
        present = found.get(section) or {}
        if not isinstance(present, Mapping) or present.get("device", "cpu") != "cpu":
            what = f"{_ZERO}.{key} = true conflicts with {section} = {json.dumps(present)}"
            raise ConfigError(what, where=path, fix=f"remove {key}, which {section} has replaced")
        found[section] = {**present, "device": "cpu"}
        notes.append(
            f'{key} = true of {Path(path).name} is used as {section}.device = "cpu", its name in DeepSpeed today'
        )
    return found


def _read(path: str) -> dict[str, Any]:
    where, fix = f"{SECTION}.ds_config", "the path of a DeepSpeed configuration in JSON"
    try:
        found = json.loads(Path(path).read_bytes(), object_pairs_hook=_unique)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", where=where, fix=fix) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}", where=where, fix=fix) from error
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(f"not JSON: {error.msg}", where=where, fix="correct it; JSON has no comments") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(error), where=path, fix="write each key once") from error
    if not isinstance(found, dict):
        raise ConfigError(f"expected a JSON object, got {type(found).__name__}", where=path, fix="{…}")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key: {next(name for name in names if names.count(name) > 1)}")
    return found
