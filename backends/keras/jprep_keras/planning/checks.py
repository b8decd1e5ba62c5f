"""Check options and models before anything is planned, and report what the environment has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jprep.errors import ConfigError
from jprep.train.backend import Finding
from jprep.train.job.config import Job
from jprep.train.launcher.import_probe import probe_output
from jprep.train.models.rope import SCALING
from jprep.train.planning.checks import check_ranges, missing_device
from jprep.train.planning.machine import expected_device, planned_elsewhere
from jprep_keras.options import SECTION, Options

MODEL_TYPES = ("gpt2", "llama", "bert", "roberta", "electra")
"""The models that KerasHub has."""

_VERSIONS = "from importlib.metadata import version; print(*map(version, ('keras', 'keras-hub', '{engine}')), end=' ');"
_DEVICES = {
    "tensorflow": "import tensorflow as t; print(*(len(t.config.list_physical_devices(d)) for d in ('GPU', 'TPU')))",
    "jax": "import jax; d = jax.devices(); print(*(len(d) * (d[0].platform == p) for p in ('gpu', 'tpu')))",
}


def check_options(job: Job, options: Options) -> None:
    """Check each option by itself, and that KerasHub's model can be given the job's config.

    Raises:
        ConfigError: an option is out of its range, or KerasHub has no such model.
    """
    check_ranges(options, SECTION, not_negative=("devices", "micro_batch", "memory"))
    if options.records:
        _check_records(job)
    model_type = job.model["model_type"]
    if model_type not in MODEL_TYPES:
        fix = f"use one of {', '.join(MODEL_TYPES)}, or another backend"
        where = "train.model.config.model_type"
        raise ConfigError(f"the backend keras has no model {model_type!r}", where=where, fix=fix)
    if model_type == "llama":
        _check_llama(job.model)


def _check_records(job: Job) -> None:
    """Check that the rows of TFRecord shards can be those of the job."""
    where, fix = f"{SECTION}.records", f"remove {SECTION}.records"
    if job.train.data:
        raise ConfigError(f"records are for clm and mlm, not {job.train.task}", where=where, fix=fix)
    if job.mix:
        what = "records have an order of their own, not that of a mixture"
        raise ConfigError(what, where="dataset.mix", fix=f"{fix}, or dataset.mix")
    if job.train.drop_last:
        what = "records have no last rows of an epoch that could be left out"
        raise ConfigError(what, where="train.drop_last", fix=f"{fix}, or drop_last")
    if job.train.document_masks:
        what = "rows of records do not say where their documents begin"
        raise ConfigError(what, where="train.document_masks", fix=f"{fix}, or document_masks")


def _check_llama(config: dict[str, Any]) -> None:
    """Check what KerasHub's Llama does not have: biases, heads of another width, dropout of attention, scaled RoPE."""
    width = config["hidden_size"] // config["num_attention_heads"]
    only = {"attention_bias": False, "mlp_bias": False, "attention_dropout": 0, "head_dim": width}
    for key, value in only.items():
        if config[key] != value:
            fix = f"{key} = {str(value).lower()}, or another backend"
            where = f"train.model.config.{key}"
            raise ConfigError(f"KerasHub's Llama cannot have {key} = {config[key]}", where=where, fix=fix)
    if SCALING in config:
        where, fix = f"train.model.config.{SCALING}", "use a preset or a model without it, or another backend"
        raise ConfigError("KerasHub's Llama does not scale RoPE as transformers does", where=where, fix=fix)


def environment_findings(python: Path, options: Options) -> list[Finding]:
    """Return the versions and devices of an environment, and a device that is missing.

    Args:
        python: the environment's interpreter.
        options: the options.

    Raises:
        MachineError: Keras or its engine cannot be imported there.
    """
    engine = options.engine
    keras, hub, version, *counts = probe_output(python, _VERSIONS.format(engine=engine) + _DEVICES[engine]).split()
    found = dict(zip(("gpu", "tpu"), map(int, counts), strict=True))
    name = {"tensorflow": "TensorFlow", "jax": "JAX"}[engine]
    devices = ", ".join(f"{count} {kind.upper()}s" for kind, count in found.items() if count) or "no accelerator"
    versions = Finding(f"Keras {keras}, KerasHub {hub}, {name} {version}: {devices}")
    wanted = expected_device(options.device, options, "cpu")
    if wanted == "cpu" or found[wanted] or (wanted == "tpu" and options.tpu != "local"):
        return [versions]
    fix = f'{_install(engine, wanted)}, or {SECTION}.device = "cpu"'
    elsewhere = planned_elsewhere(options, options.memory)
    return [versions, missing_device(name, wanted.upper(), fix, planned_elsewhere=elsewhere)]


def _install(engine: str, device: str) -> str:
    """Return the command that installs an engine for a device."""
    packages = {"tensorflow": {"gpu": "tensorflow[and-cuda]", "tpu": "tensorflow-tpu"}}
    packages["jax"] = {"gpu": "jax[cuda13]", "tpu": "jax[tpu]"}
    return f'jprep backends install keras --restart -- "{packages[engine][device]}"'
