"""Check options and models before anything is planned, and report what the environment has."""

from __future__ import annotations

import math
from pathlib import Path

from jprep.errors import ConfigError
from jprep.plurals import counted
from jprep.train.backend import Finding
from jprep.train.job.config import Job
from jprep.train.launcher.import_probe import probe_output
from jprep.train.models import FAMILIES
from jprep.train.planning.checks import check_no_8bit_averages, check_ranges, missing_device
from jprep.train.planning.machine import expected_device, planned_elsewhere
from jprep_flax.options import SECTION, Options

MODEL_TYPES = ("gpt2", "llama", "qwen3", "bert", "roberta", "electra", "modernbert", "deberta-v2")
"""The models that this backend has in flax.nnx."""

_PROBE = "import jax, flax; print(jax.__version__, flax.__version__, jax.local_device_count(), jax.default_backend())"


def check_options(job: Job, options: Options) -> None:
    """Check each option by itself.

    Raises:
        ConfigError: an option is out of its range, or the backend has no such model.
    """
    not_negative = ("devices", "data", "fsdp", "micro_batch", "memory")
    check_ranges(options, SECTION, not_negative=not_negative, positive=("tensor", "processes"))
    if options.coordinator and (options.processes < 2 or not options.coordinator.rpartition(":")[2].isdecimal()):
        fix = 'e.g. processes = 4, coordinator = "10.0.0.1:9876"'
        what = "a coordinator is an address and a port, and needs two processes or more"
        raise ConfigError(what, where=f"{SECTION}.coordinator", fix=fix)
    check_no_8bit_averages(job, "flax")
    model_type = job.model["model_type"]
    plugin = FAMILIES.plugin_of(model_type)
    if plugin and options.tensor > 1 and "tensor" not in plugin.features:
        what = f"the weights of the family {model_type!r} cannot be sharded along the axis tensor"
        raise ConfigError(what, where=f"{SECTION}.tensor", fix="remove tensor, or use fsdp")
    if not plugin and model_type not in MODEL_TYPES:
        fix = f"use one of {', '.join(MODEL_TYPES)}, or another backend"
        where = "train.model.config.model_type"
        raise ConfigError(f"the backend flax has no model {model_type!r}", where=where, fix=fix)


def check_model_sharding(job: Job, mesh: tuple[int, int, int]) -> None:
    """Check that heads and inner widths can be sharded along `tensor`, and the width of the layers along `fsdp`.

    Raises:
        ConfigError: they cannot; the fix names the largest size that works.
    """
    model, (_, fsdp, tensor) = job.model, mesh
    family = FAMILIES[model["model_type"]]
    inner = (family.heads, "num_key_value_heads", "n_inner", "intermediate_size")
    for axis, size, keys in (("tensor", tensor, inner), ("fsdp", fsdp, (family.width, "embedding_size"))):
        for key in keys:
            if (number := model.get(key, 0)) % size:
                fix = f"{SECTION}.{axis} = {math.gcd(number, size)}, or a {key} that is a multiple of {size}"
                raise ConfigError(f"{key} is {number} and cannot be divided by {axis} {size}", where=SECTION, fix=fix)


def environment_findings(python: Path, options: Options) -> list[Finding]:
    """Return the versions and devices of an environment, and a device that is missing.

    Args:
        python: the environment's interpreter.
        options: the options.

    Raises:
        MachineError: JAX or Flax cannot be imported there.
    """
    jax, flax, count, platform = probe_output(python, _PROBE).split()
    versions = Finding(f"JAX {jax}, Flax {flax}, {counted(int(count), 'usable device')} ({platform})")
    wanted = expected_device(options.device, options, platform)
    if wanted in (platform, "cpu"):
        return [versions]
    extra = "jax[tpu]" if wanted == "tpu" else "jax[cuda13]"
    fix = f'jprep backends install flax --restart -- "{extra}", or {SECTION}.device = "cpu"'
    elsewhere = planned_elsewhere(options, options.memory)
    return [versions, missing_device("JAX", wanted.upper(), fix, planned_elsewhere=elsewhere)]
