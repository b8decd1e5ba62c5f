"""Read fairseq's checkpoints, which are pickles, without running code in them: only weights and options.

The content of a file is not trusted: a tensor may claim more numbers than the file has bytes, options may be anything.
fairseq's own classes evaluate some options with `eval`, so none of them is built from them.
"""

from __future__ import annotations

import argparse
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jprep.errors import ConfigError, InputError, JprepError

_SAFE_CLASSES = (argparse.Namespace,)
"""Classes in checkpoints of fairseq 0.12.2, beyond those that PyTorch allows: attributes, and no code."""

_UNPICKLER, _REFUSED = "WeightsUnpickler error: ", re.compile(r"GLOBAL (\S+)")  # PyTorch's message, before the class
_PICKLE = "data.pkl"
_MAX_PICKLE = 1 << 26  # bytes: about a million tensors
_MAX_STRING, _MAX_INTEGER = 1000, 1 << 63  # of an option's value
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_SAVE_WEIGHTS_ONLY = """if you trust the file, load it with the fairseq that wrote it, and save what is needed: \
torch.save({key: found.get(key) for key in ("args", "cfg", "model")}, "slim.pt")"""


class FairseqCheckpoint(NamedTuple):
    """The parts of a checkpoint that are converted.

    Attributes:
        path: the file.
        options: options of the model, by name.
        task: name of fairseq's task.
        weights: weights by fairseq's names, on the CPU.
        updates: number of updates; 0 if the file does not say.
    """

    path: Path
    options: dict[str, Any]
    task: str
    weights: dict[str, Tensor]
    updates: int


def read_checkpoint(path: Path) -> FairseqCheckpoint:
    """Read a checkpoint. Weights are mapped, not read, except in files of PyTorch before 1.6.

    Raises:
        ConfigError: the file cannot be read.
        InputError: it is not a checkpoint, damaged, or holds classes that those of fairseq 0.12.2 do not; the message
            names the class.
    """
    found = _load(path)
    if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
        raise _invalid(path, "it has no weights under 'model'")
    held = found["cfg"] if isinstance(found.get("cfg"), dict) else dict.fromkeys(("model", "task"), found.get("args"))
    options, task = _plain_options(held.get("model")), _plain_options(held.get("task"))
    if not options:
        raise _invalid(path, "it has no options of the model under 'cfg' or 'args'")
    name = str(task.get("task") or task.get("_name"))
    return FairseqCheckpoint(path, options, name, _weights(path, found["model"]), _updates(found))


def _load(path: Path) -> Any:
    try:
        mapped = zipfile.is_zipfile(path) and _check_archive(path)
        with torch.serialization.safe_globals(list(_SAFE_CLASSES)):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except JprepError:
        raise
    except OSError as error:
        what = f"cannot read the file: {error.strerror or error}"
        fix = "pass the path of a checkpoint of fairseq, e.g. checkpoint_best.pt"
        raise ConfigError(what, where=str(path), fix=fix) from error
    except Exception as error:  # unpickling can raise anything
        message = str(error).partition(_UNPICKLER)[2] or str(error)
        if refused := _REFUSED.search(message):
            what = f"it holds more than weights and options, and may run code: {refused[1]}"
            raise InputError(what, where=str(path), fix=_SAVE_WEIGHTS_ONLY) from error
        raise _invalid(path, (message.splitlines() or [type(error).__name__])[0]) from error


def _check_archive(path: Path) -> bool:
    """Return True if an archive of PyTorch can be mapped into memory, and does not expand when it is read."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise _invalid(path, f"{member.filename} is compressed, which PyTorch never does")
            if member.filename.rpartition("/")[2] == _PICKLE and member.file_size > _MAX_PICKLE:
                raise _invalid(path, f"{member.filename} has {member.file_size:,} bytes, without the weights")
    return True


def _plain_options(options: Any) -> dict[str, Any]:
    """Return options by name; values that are not plain are replaced by the names of their classes."""
    named = vars(options) if isinstance(options, argparse.Namespace) else options
    if not isinstance(named, dict):
        return {}
    return {str(name): _plain_value(value) for name, value in named.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, bool | float | type(None)) or (isinstance(value, int) and abs(value) < _MAX_INTEGER):
        return value
    return value[:_MAX_STRING] if isinstance(value, str) else type(value).__name__


def _weights(path: Path, found: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint, which together are not larger than the file."""
    weights = {str(name): tensor for name, tensor in found.items() if _is_weight(tensor)}
    if len(weights) < len(found):
        others = (str(name) for name, tensor in found.items() if not _is_weight(tensor))
        raise _invalid(path, f"{next(others)!r} is not a tensor of floating-point numbers")
    if _total_bytes(weights.values()) > path.stat().st_size:
        raise _invalid(path, "its tensors are larger than the file")
    return weights


def _is_weight(tensor: Any) -> bool:
    plain = isinstance(tensor, Tensor) and tensor.layout is torch.strided and tensor.device.type == "cpu"
    return plain and tensor.dtype in _FLOATS


def _total_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of tensors; tied ones count once."""
    sizes = {(tensor.data_ptr(), tuple(tensor.shape)): tensor.nbytes for tensor in tensors}
    return sum(sizes.values())


def _updates(found: Mapping[str, Any]) -> int:
    history = found.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else {}
    number = last.get("num_updates") if isinstance(last, dict) else 0
    return number if isinstance(number, int) and number > 0 else 0


def _invalid(path: Path, reason: str) -> InputError:
    fix = "use a checkpoint as fairseq 0.12.2 saves it"
    return InputError(f"not a checkpoint of fairseq, or damaged: {reason}", where=str(path), fix=fix)
