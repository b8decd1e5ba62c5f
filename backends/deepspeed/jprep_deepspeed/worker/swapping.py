"""The directory in which a process keeps its optimizer state in files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jprep.errors import MachineError
from jprep.io.temporary import temporary_directory
from jprep_deepspeed.options import SECTION

Config = dict[str, Any]

_PREFIX = "jprep-swap-"
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
    with contextlib.ExitStack() as resources:
        try:
            folder = resources.enter_context(temporary_directory(_PREFIX, parent))
        except OSError as error:
            reason = error.strerror or str(error)
            fix = "set it to a directory on a local disk in which you may write"
            raise MachineError(f"{parent} cannot be used: {reason}", where=f"{SECTION}.nvme_path", fix=fix) from error
        yield folder
