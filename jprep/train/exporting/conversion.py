"""Convert checkpoints of other programs: find out what a checkpoint is, and run the converter of a backend."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from jprep.errors import ConfigError, MachineError
from jprep.train.backend_loading import load_backend
from jprep.train.exporting.checkpoint_selection import select_checkpoint
from jprep.train.launcher.environments import worker_python
from jprep.train.run.directory import read_job

_FAIRSEQ = (".pt", ".pth")
_INDEX = ".index"


def convert(checkpoint: Path, folder: Path, options: Mapping[str, Path | str | None]) -> int:
    """Convert a checkpoint to a folder in Hugging Face form.

    Args:
        checkpoint: a TensorFlow 1 checkpoint of google-research/bert or electra, its prefix or its folder; or a
            checkpoint of fairseq, `.pt`.
        folder: output directory.
        options: the converter's options by name: `config`, `vocab`, `part` for TensorFlow; `tokenizer`, `dict` for
            fairseq; None for those that are not given.

    Returns:
        The converter's exit code; it has printed its own error.

    Raises:
        ConfigError: it is not a checkpoint that jprep converts, or an option is missing, or for another kind.
        MachineError: the backend that converts it is not installed.
    """
    given = {name: str(value) for name, value in options.items() if value is not None}
    if checkpoint.suffix in _FAIRSEQ:
        return _run("fairseq-xla", _fairseq_arguments(checkpoint, folder, given))
    prefix = find_prefix(checkpoint)
    _refuse(given, ("tokenizer", "dict"), "a checkpoint of TensorFlow")
    flags = [part for name, value in given.items() for part in (f"--{name}", value)]
    return _run("keras", [str(prefix), str(folder), *flags])


def to_fairseq(exported: Path, folder: Path) -> int:
    """Convert an exported model to a directory that fairseq loads.

    Args:
        exported: a directory of `jprep export`.
        folder: output directory.

    Returns:
        The converter's exit code; it has printed its own error.

    Raises:
        MachineError: the backend fairseq-xla is not installed.
    """
    return _run("fairseq-xla", ["to-fairseq", str(exported), str(folder)])


def to_universal(run: Path, folder: Path, which: str = "last") -> int:
    """Convert a checkpoint of a run, of any backend, to a universal checkpoint of DeepSpeed.

    Args:
        run: the run directory.
        folder: output directory.
        which: the checkpoint, as for `jprep export`.

    Returns:
        The converter's exit code; it has printed its own error.

    Raises:
        ConfigError: there is no run or no such checkpoint, or its optimizer is none of DeepSpeed's.
        InputError: the checkpoint is damaged.
        MachineError: the backend deepspeed is not installed, or the training deleted the checkpoint meanwhile.
    """
    job = read_job(run)
    if job.train.optimizer.kind == "muon":
        what = "a universal checkpoint has both averages of AdamW for each weight, which Muon's matrices lack"
        fix = "export the weights alone: `jprep export RUN`"
        raise ConfigError(what, where='train.optimizer.kind = "muon"', fix=fix)
    checkpoint = select_checkpoint(run, job, which)
    code = _run("deepspeed", ["to-universal", str(checkpoint.folder), str(folder)])
    if code and not checkpoint.folder.exists():
        what, fix = "the checkpoint was deleted during the export", "run the same command again"
        raise MachineError(what, where=str(checkpoint.folder), fix=fix)
    return code


def find_prefix(checkpoint: Path) -> Path:
    """Return the prefix of a TensorFlow checkpoint, given it, one of its files, or a folder with one checkpoint.

    Raises:
        ConfigError: there is none.
    """
    if checkpoint.is_dir():
        found = sorted(checkpoint.glob(f"*{_INDEX}"))
        if len(found) == 1:
            return found[0].with_suffix("")
        fix = "give the prefix of one of them" if found else "give the folder of a TensorFlow checkpoint, or a .pt file"
        raise ConfigError(f"there are {len(found)} checkpoints in this folder", where=str(checkpoint), fix=fix)
    prefix = checkpoint.with_suffix("") if checkpoint.suffix == _INDEX else checkpoint
    if not prefix.with_name(prefix.name + _INDEX).exists():
        fix = "give PATH of PATH.index and PATH.data-00000-of-00001, e.g. bert_model.ckpt; or a .pt file of fairseq"
        raise ConfigError("there is no checkpoint that jprep converts", where=str(checkpoint), fix=fix)
    return prefix


def _fairseq_arguments(checkpoint: Path, folder: Path, given: dict[str, str]) -> list[str]:
    _refuse(given, ("config", "vocab", "part"), "a checkpoint of fairseq")
    if "tokenizer" not in given:
        fix = "--tokenizer DIR: the tokenizer that encoded its data"
        raise ConfigError("a checkpoint of fairseq needs a tokenizer", where=str(checkpoint), fix=fix)
    more = ["--dict", given["dict"]] if "dict" in given else []
    return ["from-fairseq", str(checkpoint), given["tokenizer"], str(folder), *more]


def _refuse(given: Mapping[str, str], names: tuple[str, ...], kind: str) -> None:
    for name in names:
        if name in given:
            raise ConfigError(f"--{name} is not for {kind}", where=f"--{name}", fix="remove it")


def _run(backend_name: str, arguments: list[str]) -> int:
    backend = load_backend(backend_name)
    command = [str(worker_python(backend)), "-P", "-m", f"{backend.module}.convert", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    return done.returncode
