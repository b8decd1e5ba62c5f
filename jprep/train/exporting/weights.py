"""A model's weights: what a backend's worker wrote, checked, as one canonical file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from jprep.errors import InputError, JprepError, MachineError
from jprep.io.atomic import remove_tree
from jprep.io.safetensors_file import DTYPE_BYTES, Floats, Shape, TensorEntry, read_blocks, read_header, write_tensors
from jprep.plugins import plugins
from jprep.train.exporting.manifest import Dtype
from jprep.train.job.config import Job
from jprep.train.job.renamed import parse_options
from jprep.train.launcher.environments import worker_command
from jprep.train.models import parameters
from jprep.train.run.checkpoints import disk_full_error

WEIGHTS = "model.safetensors"

_SPELT = {"fp32": "F32", "bf16": "BF16", "fp16": "F16"}
_KINDS = {kind.exit_code: kind for kind in (MachineError, InputError)}
_TAIL = 1500  # characters of a worker's complaint that are shown


def write_weights(run: Path, job: Job, checkpoint: Path, folder: Path, dtype: Dtype) -> None:
    """Have the job's backend take the weights out of a checkpoint, and write `model.safetensors`.

    The file does not depend on how the backend lays out its own: it has the tensors in the order of their names.

    Raises:
        MachineError: the backend is not installed.
        JprepError: its worker failed.
        InputError: what it wrote is not the job's model, or holds a number that is none.
        OSError: the disk is full.
    """
    raw = folder / "raw"
    raw.mkdir()
    _run_worker(job, run, checkpoint, raw)
    source = raw / WEIGHTS
    tensors = parameters(job.model, job.train.task)
    entries = read_header(source)
    _check(entries, {name: tensor.shape for name, tensor in tensors.items()}, job.backend)

    def blocks(name: str) -> Iterator[Floats]:
        return read_blocks(source, name, entries[name])

    write_tensors(folder / WEIGHTS, {name: tensors[name].shape for name in sorted(tensors)}, blocks, _SPELT[dtype])
    remove_tree(raw)


def _run_worker(job: Job, run: Path, checkpoint: Path, folder: Path) -> None:
    half = plugins().get("backend", job.backend)()
    options = parse_options(half, job.options)
    command = worker_command(half, options, "export", run, checkpoint, folder)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode or not (folder / WEIGHTS).exists():
        if full := disk_full_error(folder):
            raise full
        said = done.stderr.strip()[-_TAIL:] or f"it ended with {done.returncode} and wrote no {WEIGHTS}"
        kind = _KINDS.get(done.returncode, JprepError)
        raise kind(f"the backend {job.backend} could not export the checkpoint: {said}", where=str(checkpoint))


def _check(entries: Mapping[str, TensorEntry], shapes: Mapping[str, Shape], backend: str) -> None:
    found = {name: entry.shape for name, entry in entries.items()}
    for name in sorted(found.keys() | shapes.keys()):
        if found.get(name) != shapes.get(name) or entries[name].dtype not in DTYPE_BYTES:
            what = f"the backend {backend} exported {name!r} as {found.get(name)}, and the model has {shapes.get(name)}"
            raise InputError(what, where=name, fix="report it to the backend's makers")
