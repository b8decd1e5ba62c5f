"""Export weights: have a backend's worker extract them from a checkpoint, check them, and write the canonical file."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from jprep.errors import InputError, JprepError, MachineError
from jprep.io.atomic import remove_tree
from jprep.io.safetensors_file import DTYPE_BYTES, Floats, Shape, TensorEntry, read_blocks, read_header, write_tensors
from jprep.train.backend_loading import load_backend
from jprep.train.exporting.custom_head import split_head
from jprep.train.exporting.manifest import Dtype
from jprep.train.job.config import Job
from jprep.train.launcher.environments import worker_command
from jprep.train.models import parameters
from jprep.train.run.checkpoints import disk_full_error

WEIGHTS = "model.safetensors"

_DTYPES = {"fp32": "F32", "bf16": "BF16", "fp16": "F16"}
_KINDS = {kind.exit_code: kind for kind in (MachineError, InputError)}
_TAIL = 1500  # characters of the worker's stderr to show


def write_weights(
    run: Path, job: Job, checkpoint: Path, folder: Path, dtype: Dtype, names: Mapping[str, str] | None = None
) -> int:
    """Extract the weights from a checkpoint with the job's backend, and write `model.safetensors`.

    The tensors are sorted by name, so the file does not depend on the backend's own layout. The weights of a user's
    head go to a file of their own.

    Args:
        run: the run directory.
        job: its job.
        checkpoint: the checkpoint's folder.
        folder: the exported directory.
        dtype: the dtype to write.
        names: the names of the tensors to write → their names in the checkpoint; by default all of them.

    Returns:
        The number of weights written.

    Raises:
        MachineError: the backend is not installed.
        JprepError: its worker failed.
        InputError: the weights do not fit the job's model, or contain NaN or infinity.
        OSError: the disk is full.
    """
    raw = folder / "raw"
    raw.mkdir()
    _run_worker(job, run, checkpoint, raw)
    source = raw / WEIGHTS
    tensors = parameters(job.model, job.train.objective)
    entries = read_header(source)
    _check(entries, {name: tensor.shape for name, tensor in tensors.items()}, job.backend)

    sources = names or {name: name for name in tensors}

    def blocks(names: Mapping[str, str], name: str) -> Iterator[Floats]:
        return read_blocks(source, names[name], entries[names[name]])

    for file, stored in split_head(job.model, sources).items():
        shapes = {name: entries[stored[name]].shape for name in stored}
        write_tensors(folder / file, shapes, partial(blocks, stored), _DTYPES[dtype])
    remove_tree(raw)
    return sum(math.prod(entries[name].shape) for name in sources.values())


def _run_worker(job: Job, run: Path, checkpoint: Path, folder: Path) -> None:
    backend = load_backend(job.backend)
    command = worker_command(backend, backend.read_options(job.options), "export", run, checkpoint, folder)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode or not (folder / WEIGHTS).exists():
        if full := disk_full_error(folder):
            raise full
        reason = done.stderr.strip()[-_TAIL:] or f"it exited with code {done.returncode} and wrote no {WEIGHTS}"
        kind = _KINDS.get(done.returncode, JprepError)
        raise kind(f"the backend {job.backend} could not export the checkpoint: {reason}", where=str(checkpoint))


def _check(entries: Mapping[str, TensorEntry], shapes: Mapping[str, Shape], backend: str) -> None:
    found = {name: entry.shape for name, entry in entries.items()}
    for name in sorted(found.keys() | shapes.keys()):
        if found.get(name) != shapes.get(name) or entries[name].dtype not in DTYPE_BYTES:
            what = f"the backend {backend} exported {name!r} as {found.get(name)}; the model has {shapes.get(name)}"
            raise InputError(what, where=name, fix="report it to the backend's authors")
