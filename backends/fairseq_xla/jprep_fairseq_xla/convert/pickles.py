"""fairseq's checkpoints, which are pickles: read without running what is in them, and nothing but weights and options.

Nothing of a file is believed: a tensor may be spread over more numbers than the file has bytes, options may be
anything. fairseq's own classes make some of theirs by `eval`, so no model is made of them.
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

_HARMLESS = (argparse.Namespace,)
"""Classes that fairseq 0.12.2 has in a checkpoint, beyond those that PyTorch takes: attributes, and no code."""

_UNPICKLER, _REFUSED = "WeightsUnpickler error: ", re.compile(r"GLOBAL (\S+)")  # in PyTorch's errors, before the class
_PICKLE = "data.pkl"
_LONGEST_PICKLE = 1 << 26  # bytes: some million tensors
_LONGEST_WORD, _MOST = 1000, 1 << 63  # of an option's value
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_SLIM = """if you trust the file, load it with the fairseq that wrote it, and save what is needed of it: \
torch.save({key: found.get(key) for key in ("args", "cfg", "model")}, "slim.pt")"""


class FairseqCheckpoint(NamedTuple):
    """What is wanted of one.

    Attributes:
        path: the file.
        options: the model's, by name.
        task: the name of fairseq's task.
        weights: by fairseq's names, on the CPU.
        updates: how many the weights have had; 0 where it does not say.
    """

    path: Path
    options: dict[str, Any]
    task: str
    weights: dict[str, Tensor]
    updates: int


def read_checkpoint(path: Path) -> FairseqCheckpoint:
    """Read one. Its weights stay in the file until they are looked at, but for files of PyTorch before 1.6.

    Raises:
        ConfigError: it cannot be read.
        InputError: it is none, damaged, or holds objects of other classes than fairseq's 0.12.2 do; they are named.
    """
    found = _load(path)
    if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
        raise _strange(path, "it has no weights under 'model'")
    held = found["cfg"] if isinstance(found.get("cfg"), dict) else dict.fromkeys(("model", "task"), found.get("args"))
    options, task = _plain(held.get("model")), _plain(held.get("task"))
    if not options:
        raise _strange(path, "it has options of a model neither under 'cfg' nor under 'args'")
    name = str(task.get("task") or task.get("_name"))
    return FairseqCheckpoint(path, options, name, _weights(path, found["model"]), _updates(found))


def _load(path: Path) -> Any:
    try:
        mapped = zipfile.is_zipfile(path) and _check_archive(path)
        with torch.serialization.safe_globals(list(_HARMLESS)):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except JprepError:
        raise
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise ConfigError(what, where=str(path), fix="name a checkpoint of fairseq, e.g. checkpoint_best.pt") from error
    except Exception as error:  # a pickle may have anything raised
        said = str(error).partition(_UNPICKLER)[2] or str(error)
        if stranger := _REFUSED.search(said):
            what = f"it holds more than weights and options, and may run code: {stranger[1]}"
            raise InputError(what, where=str(path), fix=_SLIM) from error
        raise _strange(path, (said.splitlines() or [type(error).__name__])[0]) from error


def _check_archive(path: Path) -> bool:
    """See that a file of PyTorch's is one that can be mapped into memory, and does not grow when it is read."""
    with zipfile.ZipFile(path) as archive:
        for one in archive.infolist():
            if one.compress_type != zipfile.ZIP_STORED:
                raise _strange(path, f"{one.filename} is compressed, which PyTorch never does")
            if one.filename.rpartition("/")[2] == _PICKLE and one.file_size > _LONGEST_PICKLE:
                raise _strange(path, f"{one.filename} has {one.file_size:,} bytes, and weights lie beside it")
    return True


def _plain(options: Any) -> dict[str, Any]:
    """Options by name, however they are held; for what is no plain value, the name of its class."""
    named = vars(options) if isinstance(options, argparse.Namespace) else options
    if not isinstance(named, dict):
        return {}
    return {str(name): _value(value) for name, value in named.items()}


def _value(value: Any) -> Any:
    if isinstance(value, bool | float | type(None)) or (isinstance(value, int) and abs(value) < _MOST):
        return value
    return value[:_LONGEST_WORD] if isinstance(value, str) else type(value).__name__


def _weights(path: Path, found: Mapping[Any, Any]) -> dict[str, Tensor]:
    """The tensors of a checkpoint, all together no larger than the file."""
    weights = {str(name): tensor for name, tensor in found.items() if _is_weight(tensor)}
    if len(weights) < len(found):
        strangers = (str(name) for name, tensor in found.items() if not _is_weight(tensor))
        raise _strange(path, f"{next(strangers)!r} is no tensor of numbers with a point")
    if _bytes(weights.values()) > path.stat().st_size:
        raise _strange(path, "its tensors are larger than itself")
    return weights


def _is_weight(tensor: Any) -> bool:
    whole = isinstance(tensor, Tensor) and tensor.layout is torch.strided and tensor.device.type == "cpu"
    return whole and tensor.dtype in _FLOATS


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Of different tensors: tied ones are there once."""
    places = {(tensor.data_ptr(), tuple(tensor.shape)): tensor.nbytes for tensor in tensors}
    return sum(places.values())


def _updates(found: Mapping[str, Any]) -> int:
    history = found.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else {}
    number = last.get("num_updates") if isinstance(last, dict) else 0
    return number if isinstance(number, int) and number > 0 else 0


def _strange(path: Path, why: str) -> InputError:
    fix = "give a checkpoint as fairseq 0.12.2 saves it"
    return InputError(f"this is no checkpoint of fairseq, or damaged: {why}", where=str(path), fix=fix)
