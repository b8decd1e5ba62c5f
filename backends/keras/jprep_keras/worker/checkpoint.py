"""A checkpoint's content, copied from the devices at once and written while training continues."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jprep.io.safetensors_file import Floats
from jprep.train.run.checkpoint_files import OPTIMIZER, WEIGHTS, TrainProgress, write_part, write_progress
from jprep_keras.worker.optimizer import StateArrays


class Snapshot(NamedTuple):
    """A checkpoint in memory.

    Attributes:
        state: weights and AdamW's averages by transformers' names, and progress, as numpy arrays.
    """

    state: StateArrays

    def write(self, folder: Path) -> None:
        """Write the files.

        Raises:
            OSError: the disk is full or not writable.
        """
        state = self.state
        averages = {f"{mark}.{name}": array for mark in ("m", "v") for name, array in getattr(state, mark).items()}
        _write(folder, WEIGHTS, state.weights)
        _write(folder, OPTIMIZER, averages)
        write_progress(folder, TrainProgress(*(number.item() for number in state[3:])))


def _write(folder: Path, kind: str, tensors: Mapping[str, Floats]) -> None:
    shapes = {name: tensors[name].shape for name in sorted(tensors)}
    write_part(folder, kind, shapes, lambda name: [tensors[name]])
