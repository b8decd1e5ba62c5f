"""What an export contains: the whole model of a run, or one half of an ELECTRA."""

from __future__ import annotations

from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.train.job.config import Job, Task
from jprep.train.models import half_names, parameters
from jprep.train.models.electra import Half, half_config
from jprep.train.models.presets import TransformersConfig


class ExportPart(NamedTuple):
    """The model to export.

    Attributes:
        task: its task.
        config: transformers' config.
        names: the names of its tensors → their names in the checkpoint.
    """

    task: Task
    config: TransformersConfig
    names: dict[str, str]


def export_part(job: Job, *, generator: bool) -> ExportPart:
    """Return what to export of a job's model: all of it; of an ELECTRA, its discriminator or its generator.

    Args:
        job: the job.
        generator: whether to export the generator, which is a model for `mlm`.

    Raises:
        ConfigError: the job has no generator.
    """
    task = job.train.task
    if task != "rtd":
        if generator:
            fix = 'leave out --generator: it is for runs of the task "rtd"'
            raise ConfigError(f"a run of the task {task!r} has no generator", where=job.name, fix=fix)
        return ExportPart(task, job.model, {name: name for name in parameters(job.model, task)})
    half: Half = "generator" if generator else "discriminator"
    return ExportPart("mlm" if generator else "rtd", half_config(job.model, half), half_names(job.model, half))
