"""From a checkpoint to transformers' weights: they lie there as they are wanted."""

from __future__ import annotations

import shutil
from pathlib import Path

from jprep.errors import InputError, MachineError

WEIGHTS = "model.safetensors"


def export(run: Path, checkpoint: Path, folder: Path) -> None:
    """Write a checkpoint's weights.

    Args:
        run: the run directory.
        checkpoint: a folder in it, whose hashes were checked.
        folder: gets `model.safetensors`.

    Raises:
        InputError: the checkpoint has none.
        MachineError: the disk is full or not writable.
    """
    if not (checkpoint / WEIGHTS).exists():
        fix = "give a checkpoint that the backend torch wrote"
        raise InputError(f"there is no {WEIGHTS} in this checkpoint", where=str(checkpoint), fix=fix)
    try:
        shutil.copyfile(checkpoint / WEIGHTS, folder / WEIGHTS)
    except OSError as error:
        fix = "free some space, then run the same command again"
        raise MachineError(f"cannot be written: {error.strerror}", where=str(folder), fix=fix) from error
