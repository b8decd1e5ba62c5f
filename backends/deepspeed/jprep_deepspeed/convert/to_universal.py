"""Write a checkpoint as a universal checkpoint, which DeepSpeed loads in ZeRO 1, 2 and 3 on any number of processes.

The layout is that of `deepspeed.checkpoint.ds_to_universal`. The files hold tensors, numbers and texts only. No
hyperparameter is among them, because DeepSpeed would assign those of one parameter group to another where a training
divides its weights differently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jprep.errors import ConfigError
from jprep.io.safetensors_file import Floats
from jprep.train.exporting.output_folder import atomic_folder
from jprep.train.pretrained.universal import AVERAGE_FILES, FP32, LATEST, STEP, ZERO
from jprep.train.run.checkpoint_files import AVERAGES, CheckpointReader, TrainProgress
from jprep.train.run.commit import step_of
from jprep_torch.models.expert_weights import model_name, read_weight
from jprep_torch.worker.torch_file import save_torch_file

OPTIMIZER_STATE = "optimizer_state.pt"

MODEL_STATES = ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt")
"""The training's state: DeepSpeed reads the first in stages 1 and 2, the second in stage 3."""

FORMAT_VERSION = 0.4
"""`universal_checkpoint_version`, of DeepSpeed 0.19."""

_TAG = re.compile(r"global_step\d+")


def to_universal(checkpoint: Path, folder: Path) -> None:
    """Convert a checkpoint. The output appears complete, or not at all. One tensor is in memory at a time.

    Args:
        checkpoint: the checkpoint's folder, whose hashes were checked.
        folder: output directory; an earlier output of this function is replaced.

    Raises:
        ConfigError: the output directory holds other files.
        InputError: the checkpoint has no weights.
        MachineError: the disk is full or not writable.
    """
    reader, step = CheckpointReader(checkpoint), step_of(checkpoint)
    tag = f"global_step{step}"
    with atomic_folder(folder, _refuse_other_files) as partial:
        trained = _write_tensors(reader, partial / tag / ZERO)
        save_torch_file(_optimizer_state(reader.progress, trained), partial / tag / ZERO / OPTIMIZER_STATE)
        for name in MODEL_STATES:
            save_torch_file(_model_state(reader.progress, step), partial / tag / name)
        (partial / LATEST).write_text(tag, encoding="utf-8")


def _write_tensors(reader: CheckpointReader, zero: Path) -> int:
    """Write the folder of each weight, and return how many have averages: those that were trained."""
    averages = {model_name(name) for name in reader.averages}
    names = dict.fromkeys(model_name(name) for name in sorted(reader.weights))
    for name in names:
        folder = zero / name
        save_torch_file(_tensor(reader.weights, name), folder / FP32)
        own = {mark: f"{mark}.{name}" for mark in AVERAGES if f"{mark}.{name}" in averages}
        for mark, average in own.items():
            save_torch_file(_tensor(reader.averages, average), folder / AVERAGE_FILES[mark])
        if own:
            save_torch_file(_count(reader.progress), folder / STEP)
    return sum(f"{AVERAGES[0]}.{name}" in averages for name in names)


def _tensor(files: Mapping[str, Floats], name: str) -> dict[str, Any]:
    return {"param": torch.from_numpy(read_weight(files, name)), "cat_dim": 0}


def _count(progress: TrainProgress) -> Tensor:
    """Return the number of updates as PyTorch's optimizers count them."""
    return torch.tensor(float(progress.updates))


def _optimizer_state(progress: TrainProgress, trained: int) -> dict[str, Any]:
    """Return what DeepSpeed reads beside the tensors.

    Stages 1 and 2 restore as many parameter groups as are listed, so there are as many as a training can have. Stage 3
    takes the number of updates from the inner dictionary.
    """
    groups: list[dict[str, Any]] = [{"params": []} for _ in range(trained)]
    inner = {"state": {0: {"step": _count(progress)}}, "param_groups": [{"params": []}]}
    return {"ds_version": version("deepspeed"), "param_groups": groups, "optimizer_state_dict": inner}


def _model_state(progress: TrainProgress, step: int) -> dict[str, Any]:
    """Return the training's state. Weights are not repeated in it: DeepSpeed reads those of the folder `zero`."""
    done = progress.updates
    schedule = {
        "last_batch_iteration": done - 1,  # DeepSpeed's schedulers
        "last_epoch": done,  # PyTorch's
        "_step_count": done + 1,
        "lr_lambdas": [],
    }
    return {
        "module": {},
        "lr_scheduler": schedule,
        "global_steps": step,
        "skipped_steps": step - done,
        "dp_world_size": 1,
        "mp_world_size": 1,
        "ds_version": version("deepspeed"),
        "universal_checkpoint_info": {"universal_checkpoint_version": FORMAT_VERSION},
    }


def _refuse_other_files(folder: Path) -> None:
    """Raise ConfigError if the output directory holds anything but one output of this module."""
    if not folder.exists():
        return
    tags = [path for path in folder.iterdir() if path.name != LATEST] if folder.is_dir() else [folder]
    if any(not _is_own(path) for path in tags) or len(tags) > 1:
        what, fix = "the output directory holds other files", "choose another directory, or delete these files"
        raise ConfigError(what, where=str(folder), fix=fix)


def _is_own(tag: Path) -> bool:
    """Return whether a folder has exactly the files of a tag that was written here."""
    if not (_TAG.fullmatch(tag.name) and tag.is_dir()):
        return False
    return sorted(path.name for path in tag.iterdir()) == sorted((ZERO, *MODEL_STATES))
