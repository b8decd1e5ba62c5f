"""A DeepSpeed configuration of the user: read, checked against the job, and merged into the generated one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.job.config import Job
from jprep.train.models.model_family import model_width
from jprep_deepspeed.options import Options
from jprep_deepspeed.planning.config_file import ConfigFile, read_config_file
from jprep_deepspeed.planning.config_keys import FP16_SCALE, KNOWN_KEYS, REFUSED_KEYS
from jprep_deepspeed.planning.expected_config import ExpectedValue, expected_config
from jprep_deepspeed.planning.layout_types import Layout

AUTO = "auto"
"""The value of keys that are filled in."""

_TYPES = {int: "an integer", float: "a number", bool: "true or false", str: "a string", list: "a list"}


class ConfigValue(NamedTuple):
    """One value of a configuration.

    Attributes:
        path: its keys, the outermost first.
        value: the value.
    """

    path: tuple[str, ...]
    value: Any


class UserConfig:
    """A configuration with known keys only.

    Args:
        path: the file; "" for none.

    Raises:
        ConfigError: it cannot be read, or has keys that are unknown or not supported.
    """

    def __init__(self, path: str) -> None:
        self._file = Path(path).name
        self._path = path
        file = read_config_file(path) if path else ConfigFile({}, [])
        self._translated = file.notes
        self.values = list(self._walk(file.values, KNOWN_KEYS, ()))

    def complete_options(self, options: Options, rows: int) -> Options:
        """Return the options with unset ones taken from the file.

        Args:
            options: the backend's options.
            rows: rows of each process in a batch.

        Raises:
            ConfigError: a value of the file is not valid for the option.
        """
        given = {".".join(path): value for path, value in self.values if value != AUTO}
        found: dict[str, Any] = {}
        if options.stage == AUTO and (stage := given.get("zero_optimization.stage")) is not None:
            found["stage"] = stage
        for name in ("offload_optimizer", "offload_param"):
            if getattr(options, name) == AUTO:
                found[name] = given.get(f"zero_optimization.{name}.device", AUTO)
        if not options.nvme_path:
            found["nvme_path"] = given.get("zero_optimization.offload_optimizer.nvme_path", "")
        if not options.micro_batch:
            accumulate = given.get("gradient_accumulation_steps", 0)
            divided = rows // accumulate if accumulate > 0 and rows % accumulate == 0 else 0
            found["micro_batch"] = given.get("train_micro_batch_size_per_gpu", divided)
        return self._converted(msgspec.structs.replace(options, **found))

    def check_agreement(self, job: Job, layout: Layout) -> None:
        """Check that the file and the job have the same values.

        Raises:
            ConfigError: they differ; the message names both keys.
        """
        expected = expected_config(job, layout)
        for path, value in self.values:
            name = ".".join(path)
            if name in expected and value != AUTO and not expected[name].matches(value):
                raise self._conflict(name, value, expected[name])

    def merge_into(self, config: Mapping[str, Any], job: Job, layout: Layout) -> dict[str, Any]:
        """Return a generated configuration with the file's values that change speed and memory only.

        Args:
            config: the generated configuration.
            job: the job.
            layout: its processes, ZeRO stage and micro-batch.
        """
        merged, expected, sizes = deepcopy(dict(config)), expected_config(job, layout), _automatic_sizes(job)
        for path, value in self.values:
            name = ".".join(path)
            if name in expected or path[0] in ("optimizer", "scheduler", "fp16"):
                continue
            if value != AUTO or name in sizes:
                _set(merged, path, sizes[name] if value == AUTO else value)
        return merged

    def notes(self, job: Job, layout: Layout) -> list[str]:
        """Return what was done with each part of the file: what was translated, filled in, used, or is jprep's own."""
        notes, sections = [*self._translated, *self._used(job, layout)], {value.path[0] for value in self.values}
        if own := sorted(sections & {"optimizer", "scheduler"}):
            notes.append(f"{' and '.join(own)} of {self._file} agree with the job; jprep uses its own implementation")
        keys = {value.path[-1] for value in self.values if value.path[0] == "scheduler"}
        if "scheduler" in sections and job.train.schedule.warmup > 1 and "warmup_type" not in keys:
            notes.append('the warm-up is linear, as DeepSpeed\'s is with warmup_type = "linear"')
        scale = [path[1] for path, _ in self.values if path[0] == "fp16" and path[1] in FP16_SCALE]
        if scale and job.train.precision == "fp16":
            notes.append(f"{', '.join(scale)} of {self._file} have no effect: jprep adjusts fp16's loss scale itself")
        return notes

    def _used(self, job: Job, layout: Layout) -> Iterator[str]:
        """Yield which values were filled in, and which are used as they are."""
        expected, sizes = expected_config(job, layout), _automatic_sizes(job)
        filled = {name: value.values[0] for name, value in expected.items() if value.values} | sizes
        names = {".".join(path): value for path, value in self.values}
        if automatic := [name for name, value in names.items() if value == AUTO]:
            values = (f"{name} = {json.dumps(filled[name])}" if name in filled else name for name in automatic)
            yield f'"auto" in {self._file}: {", ".join(values)}'
        own = ("optimizer.", "scheduler.", "fp16.")
        if plain := [name for name, value in names.items() if value != AUTO and not name.startswith(own)]:
            values = (f"{name} = {json.dumps(names[name])}" for name in plain if name not in expected)
            yield f"used as {self._file} has them: {', '.join(values)}"

    def _converted(self, options: Options) -> Options:
        """Return the options after a check of the types of values that come from the file."""
        try:
            return msgspec.convert(msgspec.to_builtins(options), Options)
        except msgspec.ValidationError as error:
            fix = 'stage 0 to 3; "device": "cpu", "nvme" (of the optimizer) or "none"; integers'
            raise ConfigError(f"{self._file} is not supported: {error}", where=self._path, fix=fix) from error

    def _walk(
        self, table: Mapping[str, Any], known: Mapping[str, Any], parents: tuple[str, ...]
    ) -> Iterator[ConfigValue]:
        for key, value in table.items():
            path = (*parents, key)
            name = ".".join(path)
            if name in REFUSED_KEYS:
                if not _disabled(value):
                    what = f"{name} is not supported: {REFUSED_KEYS[name]}"
                    raise ConfigError(what, where=self._path, fix=f"remove {name}")
            elif key not in known:
                raise self._unknown(name, key, [*known, *_refused_keys(parents)])
            elif value is None and known[key] is str:
                continue  # as without the key
            elif not isinstance(known[key], dict):
                yield self._checked(path, value, known[key])
            elif isinstance(value, Mapping):
                yield from self._walk(value, known[key], path)
            elif value is not None:
                raise ConfigError(f"{name} is not an object", where=self._path, fix=f'"{key}": {{…}}')

    def _checked(self, path: tuple[str, ...], value: Any, kind: type) -> ConfigValue:
        if value == AUTO or _has_type(value, kind):
            return ConfigValue(path, int(value) if kind is int and value != AUTO else value)
        what = f"{'.'.join(path)} = {json.dumps(value)} is not {_TYPES[kind]}"
        raise ConfigError(what, where=self._path, fix=f'{_TYPES[kind]}, or "auto"')

    def _unknown(self, name: str, key: str, known: list[str]) -> ConfigError:
        return ConfigError(f"DeepSpeed has no {name}", where=self._path, fix=suggest_name(key, known))

    def _conflict(self, name: str, value: Any, expected: ExpectedValue) -> ConfigError:
        job = f"{expected.key} = {json.dumps(expected.shown)}"
        what = f"{name} = {json.dumps(value)} in {self._file} conflicts with {job}"
        fix = f'use the same value for both, or "auto" for {name}' if expected.values else f"remove {name}"
        return ConfigError(what, where=self._path, fix=fix)


def _disabled(value: Any) -> bool:
    """Return whether a value disables a feature, or leaves it to DeepSpeed."""
    if isinstance(value, Mapping):
        return not value or _disabled(value.get("enabled", True)) or all(map(_disabled, value.values()))
    return value in (None, False, 0, "", "none", AUTO)


def _has_type(value: Any, kind: type) -> bool:
    if kind in (int, float):
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return number and (kind is float or value == int(value))
    return isinstance(value, kind)


def _refused_keys(parents: tuple[str, ...]) -> list[str]:
    """Return the refused keys of a section."""
    paths = [tuple(name.split(".")) for name in REFUSED_KEYS]
    return [path[-1] for path in paths if path[:-1] == parents]


def _automatic_sizes(job: Job) -> dict[str, int]:
    """Return the sizes that transformers' Trainer fills in for `auto`; other `auto`s are left to DeepSpeed."""
    width = model_width(job.model)
    zero = "zero_optimization"
    return {
        f"{zero}.reduce_bucket_size": width * width,
        f"{zero}.stage3_prefetch_bucket_size": int(0.9 * width * width),
        f"{zero}.stage3_param_persistence_threshold": 10 * width,
    }


def _set(config: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value, unless it belongs to a precision or an offload that the job does not use."""
    for key in path[:-1]:
        if key.startswith(("bf16", "offload")) and key not in config:
            return
        config = config.setdefault(key, {})
    config[path[-1]] = value
