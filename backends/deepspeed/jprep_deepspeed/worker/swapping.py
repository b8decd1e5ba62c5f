"""The directory in which a process keeps its optimizer state in files."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from jprep.errors import MachineError
from jprep_deepspeed.options import SECTION

Config = dict[str, Any]

_LOCK = ".lock"
_ZERO, _OPTIMIZER = "zero_optimization", "offload_optimizer"


def in_files(config: Config) -> bool:
    """Return whether a DeepSpeed configuration keeps the optimizer state in files."""
    return bool(config.get(_ZERO, {}).get(_OPTIMIZER, {}).get("device") == "nvme")


@contextlib.contextmanager
def swap_directory(config: Config) -> Iterator[Config]:
    """Yield the configuration with a new directory for what this process keeps in files, below the given one.

    The files have no use after the process. Those of killed processes are deleted: their locks are free.

    Args:
        config: DeepSpeed's configuration.

    Raises:
        MachineError: the directory cannot be made.
    """
    if not in_files(config):
        yield config
        return
    zero = config[_ZERO]
    with _directory_below(Path(zero[_OPTIMIZER]["nvme_path"])) as folder:
        yield {**config, _ZERO: {**zero, _OPTIMIZER: {**zero[_OPTIMIZER], "nvme_path": str(folder)}}}


@contextlib.contextmanager
def _directory_below(parent: Path) -> Iterator[Path]:
    """Yield a new directory. Its lock is a file beside it, which is there before it and as long as it is."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _delete_abandoned(parent)
        path, lock = _new_lock(parent)
        folder = path.with_suffix("")
        folder.mkdir()
    except OSError as error:
        reason = error.strerror or str(error)
        fix = "set it to a directory on a local disk in which you may write"
        raise MachineError(f"{parent} cannot be used: {reason}", where=f"{SECTION}.nvme_path", fix=fix) from error
    with lock:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            path.unlink(missing_ok=True)


def _new_lock(parent: Path) -> tuple[Path, IO[bytes]]:
    """Return the path of a new file, and the file, locked."""
    while True:
        number, name = tempfile.mkstemp(prefix=_prefix(), suffix=_LOCK, dir=parent)
        lock = os.fdopen(number, "wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if Path(name).exists():  # else another process deleted it as abandoned before it was locked
            return Path(name), lock
        lock.close()


def _prefix() -> str:
    return f"jprep-swap-{socket.gethostname()}-"


def _delete_abandoned(parent: Path) -> None:
    """Delete what killed processes of this host have left: other hosts' locks may be invisible here."""
    for path in parent.glob(f"{glob.escape(_prefix())}*{_LOCK}"):
        with contextlib.suppress(OSError), path.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink()
