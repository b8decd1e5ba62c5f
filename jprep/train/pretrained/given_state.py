"""Continue the training of a universal checkpoint of DeepSpeed: from its step, with its averages and its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError, InputError
from jprep.io.atomic import file_sha256
from jprep.io.safetensors_file import DTYPE_BYTES, TensorFiles
from jprep.train.job.config import GIVEN_STATE, Job, TrainConfig
from jprep.train.models.initial_weights import check_init_weights, format_shape
from jprep.train.models.presets import TransformersConfig
from jprep.train.models.weights import TensorSpecs, parameters
from jprep.train.optimization.loss_scale import initial_loss_scale
from jprep.train.pretrained.location import WHERE
from jprep.train.pretrained.pickled_tensors import read_pickled_number, read_pickled_tensor
from jprep.train.pretrained.start import init_path
from jprep.train.pretrained.stored_tensors import StoredTensor
from jprep.train.pretrained.universal import (
    AVERAGE_FILES,
    STEP,
    is_universal,
    step_of_tag,
    universal_files,
    with_shapes,
)
from jprep.train.pretrained.weights import weight_files
from jprep.train.run.checkpoint_files import OPTIMIZER, WEIGHTS, TrainProgress, write_part, write_progress
from jprep.train.run.directory import INIT, given_state_store
from jprep.train.run.log import Say

_MOST_UPDATES = 1 << 53
_WITHOUT = "remove continue_training to begin a new training with these weights"


class GivenState(NamedTuple):
    """The state of a training that a run continues.

    Attributes:
        step: the steps done.
        updates: the updates of the optimizer; fewer if fp16 skipped some.
        averages: AdamW's running averages, by `m.NAME` and `v.NAME`.
    """

    step: int
    updates: int
    averages: dict[str, StoredTensor]


def read_given_state(train: TrainConfig, model: TransformersConfig, path: Path) -> GivenState:
    """Check the state of a training in a universal checkpoint. Only descriptions and numbers of updates are read.

    Args:
        train: the section, with `model.continue_training`.
        model: transformers' config.
        path: the universal checkpoint.

    Raises:
        ConfigError: it is not a universal checkpoint, or lacks an average of a trained weight; or its step is unknown.
        InputError: a file is damaged.
    """
    _refuse_unsupported(train, path)
    tensors = {name: one for name, one in parameters(model, train.objective).items() if one.trained}
    weights = check_init_weights(model, train.objective, path)
    if missing := sorted(tensors.keys() - weights.keys()):
        what = f"the checkpoint has no weight {missing[0]!r}, which would start from the seed"
        raise ConfigError(what, where=str(path), fix=f"use the task and the labels of that training, or {_WITHOUT}")
    folders = {name: weights[name].path.parent for name in tensors}
    return GivenState(*_steps(path, folders), _averages(folders, tensors))


def _refuse_unsupported(train: TrainConfig, path: Path) -> None:
    """Raise ConfigError if there is no training to continue, or if averages would not fit the weights."""
    if not is_universal(path) or weight_files(path) != universal_files(path):
        what = "only the training of a universal checkpoint of DeepSpeed can be continued"
        fix = f"give its folder global_stepN…, without a model.safetensors, as {WHERE}; or {_WITHOUT}"
        raise ConfigError(what, where=str(path), fix=fix)
    for used, key, what in (
        (train.optimizer.kind == "muon", "optimizer.kind", "Muon cannot continue AdamW's averages"),
        (train.model.vocabulary == "transfer", "model.vocabulary", "averages cannot be moved to another vocabulary"),
        (bool(train.rtd.generator_init), "rtd.generator_init", "a generator from elsewhere has no averages"),
    ):
        if used:
            raise ConfigError(what, where=f"train.{key}", fix=f"remove {key}, or {_WITHOUT}")


def hash_given_state(train: TrainConfig, model: TransformersConfig, path: Path) -> dict[str, dict[str, Any]]:
    """Return what a job's fingerprint takes from the given state: its step, and a hash; see `read_given_state`."""
    state = read_given_state(train, model, path)
    files = {name: file_sha256(average.path) for name, average in state.averages.items()}
    return {GIVEN_STATE: {"step": state.step, "sha256": fingerprint({"files": files, "updates": state.updates})}}


def ensure_given_state(run: Path, job: Job, say: Say) -> None:
    """Write the training state that a run begins with, unless it has none or it exists undamaged.

    It has the files of a checkpoint. Requires the run's lock and the initial weights.

    Args:
        run: the run directory.
        job: the job.
        say: called with a message for the user.

    Raises:
        ConfigError, InputError: the universal checkpoint has changed.
        MachineError: the disk is full or not writable.
    """
    path, store = init_path(job, run), given_state_store(run, job)
    if path is None or not job.steps_before:
        return
    store.clean()
    if store.latest(lambda folder, problem: say(f"{folder} is damaged and is written again: {problem}")):
        return
    state = read_given_state(job.train, job.model, path)
    weights = TensorFiles([run / INIT])
    with store.saving(state.step) as folder:
        write_part(folder, WEIGHTS, {name: weights.entries[name][1].shape for name in sorted(weights)}, weights.blocks)
        shapes = {name: average.entry.shape for name, average in sorted(state.averages.items())}
        write_part(folder, OPTIMIZER, shapes, lambda name: state.averages[name].blocks(name))
        write_progress(folder, TrainProgress(state.updates, initial_loss_scale(job.train.precision)))


def _steps(path: Path, folders: dict[str, Path]) -> tuple[int, int]:
    """Return the steps and the updates of the training: the first by the folder's name, if it has it."""
    files = [folder / STEP for folder in folders.values() if (folder / STEP).exists()]
    counts = {_count(file) for file in files}
    if len(counts) > 1:
        what = f"its weights have had different numbers of updates: {min(counts)} to {max(counts)}"
        raise InputError(what, where=str(path), fix=_WITHOUT)
    step = step_of_tag(path) or max(counts, default=0)
    if not step:
        fix = "call the folder global_stepN, with N steps done"
        raise ConfigError("the checkpoint does not say at which step it was saved", where=str(path), fix=fix)
    return step, min(step, max(counts, default=step))


def _count(file: Path) -> int:
    """Return the number of updates in a file."""
    found = read_pickled_number(file)
    if not 0 <= found < _MOST_UPDATES or found % 1:
        raise InputError(f"{found:g} is not a number of updates", where=str(file), fix=_WITHOUT)
    return int(found)


def _averages(folders: dict[str, Path], tensors: TensorSpecs) -> dict[str, StoredTensor]:
    """Return the averages of the weights, in the shapes of these."""
    found: dict[str, StoredTensor] = {}
    for mark, file in AVERAGE_FILES.items():
        for name, folder in folders.items():
            if not (folder / file).exists():
                raise ConfigError(f"there is no {file} in this folder of a weight", where=str(folder), fix=_WITHOUT)
            own = with_shapes({name: read_pickled_tensor(folder / file)}, tensors)[name]
            if own.entry.shape != tensors[name].shape or own.entry.dtype not in DTYPE_BYTES:
                shapes = format_shape(own.entry.shape), format_shape(tensors[name].shape)
                what = f"the average, {own.entry.dtype}, has the shape {shapes[0]}; the weight has {shapes[1]}"
                raise InputError(what, where=str(folder / file), fix=_WITHOUT)
            found[f"{mark}.{name}"] = own
    return found
