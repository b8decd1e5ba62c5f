"""Files that PyTorch itself writes and loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from jprep.errors import MachineError


def save_torch_file(value: Any, path: Path) -> None:
    """Save a value with `torch.save`, in a folder that is created if it does not exist.

    Raises:
        MachineError: the file cannot be written; PyTorch raises RuntimeError for a full disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.save(value, path)
    except RuntimeError as error:
        what, fix = f"cannot write: {error}", "free disk space, or choose another directory"
        raise MachineError(what, where=str(path), fix=fix) from error
