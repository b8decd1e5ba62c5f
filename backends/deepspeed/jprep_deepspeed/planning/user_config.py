"""A DeepSpeed configuration of the user's own: read, held against the job, and joined with jprep's settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.errors import ConfigError
from jprep.plugins.references import suggest_name
from jprep.train.job.config import Job
from jprep_deepspeed.options import SECTION, Layout, Options
from jprep_deepspeed.planning.config_keys import FP16_SCALE, KNOWN_KEYS, REFUSED_KEYS
from jprep_deepspeed.planning.expected_config import ExpectedValue, stated

AUTO = "auto"
"""What is to be filled in."""

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", list: "a list"}


class ConfigValue(NamedTuple):
    """One value of a configuration.

    Attributes:
        path: its keys, from the outermost.
        value: it.
    """

    path: tuple[str, ...]
    value: Any


class UserConfig:
    """A configuration whose keys are all known.

    Args:
        path: its file; "" for none.

    Raises:
        ConfigError: it cannot be read, or has keys that there are not, or that jprep does not take.
    """

    def __init__(self, path: str) -> None:
        self._file = Path(path).name
        self._path = path
        self.leaves = list(self._walk(_read(path), KNOWN_KEYS, ())) if path else []

    def adopted(self, options: Options, own: int) -> Options:
        """The options, with what they leave open as the file has it.

        Args:
            options: the backend's.
            own: rows of each process in a batch.
        """
        given = {".".join(leaf.path): leaf.value for leaf in self.leaves if leaf.value != AUTO}
        more: dict[str, Any] = {}
        if options.stage == AUTO and (stage := given.get("zero_optimization.stage")) is not None:
            more["stage"] = stage
        for name in ("offload_optimizer", "offload_param"):
            if getattr(options, name) == AUTO:
                more[name] = given.get(f"zero_optimization.{name}.device", AUTO)
        if not options.rows:
            times = given.get("gradient_accumulation_steps", 0)
            fitting = own // times if times > 0 and own % times == 0 else 0
            more["rows"] = given.get("train_micro_batch_size_per_gpu", fitting)
        return self._checked(msgspec.structs.replace(options, **more))

    def agree(self, job: Job, layout: Layout) -> None:
        """See that it says nothing else than the job.

        Raises:
            ConfigError: it does; both keys are named.
        """
        said = stated(job, layout)
        for path, value in self.leaves:
            name = ".".join(path)
            if name in said and value != AUTO and not said[name].agrees(value):
                raise self._conflict(name, value, said[name])

    def joined(self, settings: Mapping[str, Any], job: Job, layout: Layout) -> dict[str, Any]:
        """Jprep's settings with what the file says of speed and memory."""
        found, said, auto = deepcopy(dict(settings)), stated(job, layout), _automatic(job)
        for path, value in self.leaves:
            name = ".".join(path)
            if name in said or path[0] in ("optimizer", "scheduler", "fp16"):
                continue
            if value != AUTO or name in auto:
                _put(found, path, auto[name] if value == AUTO else value)
        return found

    def notes(self, job: Job) -> list[str]:
        """What of it jprep does in its own way."""
        found, heads = [], {leaf.path[0] for leaf in self.leaves}
        if both := sorted(heads & {"optimizer", "scheduler"}):
            does = "does it" if len(both) == 1 else "do it"
            found.append(f"{' and '.join(both)} of {self._file} say what the job says; jprep's own {does}")
        kinds = {leaf.path[-1] for leaf in self.leaves if leaf.path[0] == "scheduler"}
        if "scheduler" in heads and job.train.schedule.warmup > 1 and "warmup_type" not in kinds:
            found.append('the warm-up is linear, as DeepSpeed\'s is with warmup_type = "linear"')
        scale = [leaf.path[1] for leaf in self.leaves if leaf.path[0] == "fp16" and leaf.path[1] in FP16_SCALE]
        if scale and job.train.precision == "fp16":
            found.append(f"{', '.join(scale)} of {self._file} are docs/training.md's: fp16's scale is the same for all")
        return found

    def _checked(self, options: Options) -> Options:
        """What the file says goes through the options' own types."""
        try:
            return msgspec.convert(msgspec.to_builtins(options), Options)
        except msgspec.ValidationError as error:
            fix = 'stage 0 to 3; "device": "cpu" or "none"; whole numbers'
            raise ConfigError(f"{self._file} cannot be had: {error}", where=self._path, fix=fix) from error

    def _walk(
        self, table: Mapping[str, Any], known: Mapping[str, Any], above: tuple[str, ...]
    ) -> Iterator[ConfigValue]:
        for key, value in table.items():
            path = (*above, key)
            name = ".".join(path)
            if name in REFUSED_KEYS:
                if not _off(value):
                    what, fix = f"{name} is not for jprep: {REFUSED_KEYS[name]}", f"leave {name} out"
                    raise ConfigError(what, where=self._path, fix=fix)
            elif key not in known:
                raise self._unknown(name, key, [*known, *_refused_below(above)])
            elif not isinstance(known[key], dict):
                yield self._leaf(path, value, known[key])
            elif isinstance(value, Mapping):
                yield from self._walk(value, known[key], path)
            elif value is not None:
                raise ConfigError(f"{name} is no table", where=self._path, fix=f'"{key}": {{…}}')

    def _leaf(self, path: tuple[str, ...], value: Any, kind: type) -> ConfigValue:
        if value == AUTO or _is(value, kind):
            return ConfigValue(path, int(value) if kind is int and value != AUTO else value)
        what = f"{'.'.join(path)} = {json.dumps(value)} is not {_WORDS[kind]}"
        raise ConfigError(what, where=self._path, fix=f'{_WORDS[kind]}, or "auto"')

    def _unknown(self, name: str, key: str, known: list[str]) -> ConfigError:
        return ConfigError(f"DeepSpeed has no {name}", where=self._path, fix=suggest_name(key, known))

    def _conflict(self, name: str, value: Any, said: ExpectedValue) -> ConfigError:
        what = f"{name} = {json.dumps(value)} in {self._file} against {said.key} = {json.dumps(said.shown)}"
        fix = f'take the same for both, or "auto" for {name}'
        return ConfigError(what, where=self._path, fix=fix)


def _read(path: str) -> dict[str, Any]:
    where, fix = f"{SECTION}.ds_config", "the path of a DeepSpeed configuration in JSON"
    try:
        found = json.loads(Path(path).read_bytes(), object_pairs_hook=_once)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", where=where, fix=fix) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}", where=where, fix=fix) from error
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(f"it is not JSON: {error.msg}", where=place, fix="mend it; JSON has no comments") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(error), where=path, fix="name each key once") from error
    if not isinstance(found, dict):
        raise ConfigError(f"a configuration is a table, and not {type(found).__name__}", where=path, fix="{…}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"a key stands there twice: {next(name for name in names if names.count(name) > 1)}")
    return found


def _off(value: Any) -> bool:
    """Whether a value switches something off, or leaves it to others."""
    if isinstance(value, Mapping):
        return not value or _off(value.get("enabled", True)) or all(map(_off, value.values()))
    return value in (None, False, 0, "", "none", AUTO)


def _is(value: Any, kind: type) -> bool:
    if kind in (int, float):
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return number and (kind is float or value == int(value))
    return isinstance(value, kind)


def _refused_below(above: tuple[str, ...]) -> list[str]:
    split = [tuple(name.split(".")) for name in REFUSED_KEYS]
    return [path[-1] for path in split if path[:-1] == above]


def _automatic(job: Job) -> dict[str, int]:
    """Sizes as transformers' Trainer fills them in; other `auto`s are left to DeepSpeed."""
    width = int(job.model.get("n_embd") or job.model["hidden_size"])
    zero = "zero_optimization"
    return {
        f"{zero}.reduce_bucket_size": width * width,
        f"{zero}.stage3_prefetch_bucket_size": int(0.9 * width * width),
        f"{zero}.stage3_param_persistence_threshold": 10 * width,
    }


def _put(settings: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value; of a precision or an offload that there is not, nothing is said."""
    for key in path[:-1]:
        if key.startswith(("bf16", "offload")) and key not in settings:
            return
        settings = settings.setdefault(key, {})
    settings[path[-1]] = value
