"""The name of the model that a run started from, for its model card."""

from __future__ import annotations

import contextlib
from pathlib import Path

from jprep.errors import JprepError
from jprep.hub.download import name_of
from jprep.train.exporting.manifest import read_export
from jprep.train.job.config import Job
from jprep.train.pretrained.start import generator_init_path, init_path
from jprep.train.pretrained.universal import is_described

_FILES = (".safetensors", ".bin", ".pt", ".pth")


def base_model_name(job: Job, run: Path, *, generator: bool = False) -> str:
    """Return the name of the model whose folder a run started from, on the Hub if it came from there; "" without one.

    Args:
        job: the job.
        run: the run directory.
        generator: whether to name that of an ELECTRA's generator.
    """
    init = (generator and generator_init_path(job, run)) or init_path(job, run)
    if not init or init.suffix in _FILES or (init.is_dir() and not is_described(init)):
        return ""
    with contextlib.suppress(JprepError):
        return read_export(init).name
    return name_of(init) or init.name
