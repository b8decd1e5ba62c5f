"""Find a pretrained model: a file, a folder, or a name on the Hub."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import msgspec

from jprep.errors import ConfigError
from jprep.hub.download import commit_of
from jprep.hub.location import is_hub_name, resolve_location
from jprep.train.job.config import TrainConfig
from jprep.train.models.presets import TransformersConfig
from jprep.train.pretrained.config import CONFIG, read_pretrained_config

_SMALL_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
"""Patterns of config and tokenizer."""

WHERE = "train.model.init"


def resolve_init(train: TrainConfig) -> TrainConfig:
    """Return the section with `model.init` and `rtd.generator_init` as local paths; names on the Hub are downloaded.

    Raises:
        ConfigError: there is no such file, folder or name on the Hub; the message says which.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    replace, rtd = msgspec.structs.replace, train.rtd
    if train.model.init:
        train = replace(train, model=replace(train.model, init=_local(train.model.init)))
    if rtd.generator_init and train.task == "rtd":
        train = replace(train, rtd=replace(rtd, generator_init=_local(rtd.generator_init)))
    return train


def check_init(train: TrainConfig) -> None:
    """Check `model.init` and `rtd.generator_init` before any work: from the Hub, only `config.json` is downloaded.

    Raises:
        ConfigError: there is no such file, folder or name on the Hub, or its config does not fit.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    from jprep.train.pretrained.config import with_pretrained_config
    from jprep.train.pretrained.halves import with_generator
    from jprep.train.pretrained.universal import is_described

    found = resolve_location(train.model.init, (CONFIG,))
    if not found.exists():
        raise missing_init(train.model.init)
    refuse_run(found)
    given = read_pretrained_config(found) if is_described(found) else None
    if given:
        with_pretrained_config(train.model, given, train.objective)
    if train.rtd.generator_init and train.task == "rtd":
        generator = str(resolve_location(train.rtd.generator_init, (CONFIG,)))
        rtd = msgspec.structs.replace(train.rtd, generator_init=generator)
        with_generator(msgspec.structs.replace(train, rtd=rtd), given)


def described_model(init: str) -> TransformersConfig:
    """Return what the `config.json` of given weights says of their model; nothing where there is no such file.

    Args:
        init: a path, or a name on the Hub, of which only `config.json` is downloaded.

    Raises:
        ConfigError: there is no such name on the Hub, or jprep has no such architecture.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    folder = resolve_location(init, (CONFIG,))
    if not (folder / CONFIG).is_file():
        return {}
    given = read_pretrained_config(folder)
    return {"model_type": given.model_type, **given.values}


def missing_init(init: str) -> ConfigError:
    """Return the error for an `init` that is neither a path nor a name on the Hub."""
    from jprep.train.run.directory import EXPORT, JOB

    path = Path(init).expanduser()
    fix = "give a safetensors file, a folder with config.json and weights, or a name on the Hub: org/name"
    if path.name == EXPORT and (path.parent / JOB).is_file():
        fix = f"export the run first: `jprep export {shlex.quote(str(path.parent))}`"
    return ConfigError(f"there is no file or folder {init!r}", where=WHERE, fix=fix)


def refuse_run(path: Path) -> None:
    """Check that a path is not a run, a checkpoint's folder, or a parent of runs: only exports describe their model.

    Raises:
        ConfigError: it is one; the fix is the command that exports the model.
    """
    from jprep.train.run.commit import step_of
    from jprep.train.run.directory import CHECKPOINTS, EXPORT, JOB, runs_below

    if not path.is_dir() or (path / CONFIG).exists():
        return
    runs, kind, option = [path], "a run", ""
    if path.parent.name == CHECKPOINTS and (path.parents[1] / JOB).is_file():
        runs, kind, option = [path.parents[1]], "a checkpoint of a run", f" --which {step_of(path)}"
    elif not (path / JOB).is_file():
        runs, kind = runs_below(path), "a folder of runs"
    if runs:
        fix = f"`jprep export {shlex.quote(str(runs[0]))}{option}`, then {WHERE} = {_quoted(runs[0] / EXPORT)}"
        raise ConfigError(f"this is {kind}, not an exported model", where=f"{WHERE} = {_quoted(path)}", fix=fix)


def _quoted(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)


def _local(init: str) -> str:
    return str(_download(init) if is_hub_name(init) else resolve_location(init))


def _download(init: str) -> Path:
    """Download config, tokenizer and weights; `pytorch_model.bin` only if there is no safetensors file."""
    found = resolve_location(init, (*_SMALL_FILES, "model*.safetensors"))
    if not any(found.glob("model*.safetensors")):
        name = init.partition("@")[0]
        resolve_location(f"{name}@{commit_of(found)}", ("pytorch_model*.bin",))
    return found
