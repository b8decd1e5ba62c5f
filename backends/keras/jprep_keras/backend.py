"""The planner: checks the options, and plans how a job runs on the devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec

from jprep.train.backend import Backend, Environment, Finding, Host, Plan
from jprep.train.job.config import Job
from jprep.train.planning.checks import inspect_environment
from jprep_keras.options import Options
from jprep_keras.planning.checks import environment_findings
from jprep_keras.planning.launch import engine_variables, worker_command, worker_environment, worker_settings
from jprep_keras.planning.layout import Layout, choose_layout


class Keras(Backend):
    """Keras 3 on TensorFlow or JAX, with KerasHub's models: one process drives all devices of a machine."""

    name: ClassVar[str] = "keras"
    module: ClassVar[str] = "jprep_keras"
    distribution: ClassVar[str] = "jprep-keras"
    Options: ClassVar[type[Any]] = Options
    evaluates: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = (*Backend.tasks, "sft")
    features: ClassVar[tuple[str, ...]] = ("document_masks", "z_loss")
    hooks: ClassVar[str] = "jprep_keras.worker.hooks"

    def environment(self, options: Any) -> Environment:
        """Return the environment of both engines. The worker itself imports without Keras, which is therefore named."""
        return msgspec.structs.replace(super().environment(options), needs="keras")

    def check(self, options: Any) -> list[Finding]:
        """Return the versions in the environment, and whether it has the device of the options."""
        return inspect_environment(self, options, lambda python: environment_findings(python, options))

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """Plan one process for all devices.

        Raises:
            ConfigError: the batch cannot be divided, an option is out of its range, or KerasHub has no such model.
        """
        layout = choose_layout(job, self.read_options(job.options), host)
        return Plan(
            argv=(host.python, "-m", *worker_command(layout, run)),
            env=worker_environment(layout),
            processes=1,
            micro_batch=layout.micro_batch,
            accumulate=layout.accumulate,
            memory=layout.memory,
            target=layout.target,
            smaller=layout.smaller,
            vocabulary=job.train.model.padded(job.model["vocab_size"]),
            notes=(_describe(layout),),
            settings=worker_settings(layout),
        )

    def result_options(self, options: Any) -> dict[str, Any]:
        """Return the shards, whose rows need not be those of the dataset."""
        return {"records": options.records} if options.records else {}

    def check_environment(self, options: Any) -> dict[str, str]:
        """Return the variables of the engine, which Keras reads when it is imported."""
        return engine_variables(options.engine)


def _describe(layout: Layout) -> str:
    """Return a sentence about the engine and the devices."""
    engine = {"tensorflow": "TensorFlow", "jax": "JAX"}[layout.engine]
    devices = (
        f"one {layout.device.upper()} device"
        if layout.devices == 1
        else f"{layout.devices} {layout.device.upper()} devices"
    )
    untested = "; not yet tested on a TPU" if layout.device == "tpu" else ""
    return f"Keras on {engine}, {devices}{_strategy(layout)}{untested}"


def _strategy(layout: Layout) -> str:
    if layout.engine == "jax":
        return ""
    return " (TPUStrategy)" if layout.device == "tpu" else " (MirroredStrategy)" if layout.devices > 1 else ""
