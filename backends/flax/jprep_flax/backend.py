"""The light half: the backend's options, and how a job is laid out on devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec

from jprep.errors import JprepError
from jprep.train.backend import Finding, Host, Plan
from jprep.train.job.config import Job
from jprep.train.launcher.environments import worker_python
from jprep.train.launcher.import_probe import probe_output
from jprep.train.launcher.multihost import multihost_note
from jprep.train.planning.host import accelerators, tpu_count
from jprep_flax.options import JAX_PLATFORMS, SECTION, Options
from jprep_flax.planning.layout import Layout, choose_layout

_ABOUT = "import jax, flax; print(jax.__version__, flax.__version__, jax.local_device_count(), jax.default_backend())"


class Flax:
    """JAX with models in flax.nnx: one process drives all devices of a machine."""

    name: ClassVar[str] = "flax"
    module: ClassVar[str] = "jprep_flax"
    distribution: ClassVar[str] = "jprep-flax"
    Options: ClassVar[type[Any]] = Options

    def check(self, options: Any) -> list[Finding]:
        """What its environment holds, and whether the device that is asked for is there."""
        fix = f"jprep backends install {self.name}"
        try:
            versions = _ask(worker_python(self, options))
        except JprepError as error:
            return [Finding(error.what, "error", error.fix or f"{fix} --restart")]
        jax, flax, count, kind = versions.split()
        found = [Finding(f"JAX {jax}, Flax {flax}, {count} devices that it can use ({kind})")]
        wanted = options.device if options.device != "auto" else "gpu" if accelerators() else kind
        if wanted != kind and wanted != "cpu":
            extra = "jax[tpu]" if wanted == "tpu" else "jax[cuda13]"
            fix = f'{fix} --restart -- "{extra}", or {SECTION}.device = "cpu"'
            elsewhere = options.memory and not (accelerators() or tpu_count())
            this = f"planned for another machine: this one has no {wanted.upper()}"
            what = this if elsewhere else f"JAX finds no {wanted.upper()}"
            found.append(Finding(what, "note" if elsewhere else "error", fix))
        return found

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """One process with all devices, or a process for each share of them.

        Raises:
            ConfigError: an axis cannot be divided, an option is out of its range, or there is no such model.
        """
        options = msgspec.convert(job.options, Options)
        layout = choose_layout(job, options, host)
        return Plan(
            argv=(host.python, "-m", *_program(layout, run)),
            env=_environment(layout),
            processes=layout.processes,
            machines=layout.processes if layout.coordinator else 1,
            rows=layout.rows,
            accumulate=layout.accumulate,
            memory=layout.memory,
            target=layout.target,
            smaller=layout.smaller,
            notes=(*_notes(job, layout), *([multihost_note(run, layout.processes)] if layout.coordinator else [])),
            settings=_told(layout),
        )


def _ask(python: Path) -> str:
    return probe_output(python, _ABOUT)


def _told(layout: Layout) -> dict[str, Any]:
    """What a worker is told of the layout: not what the plan itself says."""
    return msgspec.to_builtins(msgspec.structs.replace(layout, target=None, smaller=()))  # type: ignore[no-any-return]


def _program(layout: Layout, run: Path) -> list[str]:
    """The worker, or what starts several; each is told the layout, which is the plan's and not its own."""
    verb = ["train", str(run), "--layout", msgspec.json.encode(_told(layout)).decode()]
    if layout.processes > 1 and not layout.coordinator:
        return ["jprep_flax.worker.launcher", str(layout.processes), *verb]
    return ["jprep_flax.worker", *verb]


def _environment(layout: Layout) -> dict[str, str]:
    env = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    env["PYTHONSAFEPATH"] = "1"  # no file of the working directory is taken for a library
    return env | {"JAX_PLATFORMS": JAX_PLATFORMS[layout.device]}


def _notes(job: Job, layout: Layout) -> tuple[str, ...]:
    """What a user should know of it beside the numbers."""
    names = ("data", "fsdp", "tensor")
    sizes = [f"{name} {size}" for name, size in zip(names, layout.mesh, strict=True) if size > 1]
    device = f"{layout.device.upper()} device"
    notes = [f"one {device}" if not sizes else f"a mesh of {layout.world} {device}s: {', '.join(sizes)}"]
    if layout.vocabulary > (ids := job.model["vocab_size"]):
        what = f"tables of ids have {layout.vocabulary} rows, {layout.vocabulary - ids} more than there are ids"
        notes.append(f"{what}: those take no part in the softmax, and are not exported")
    return tuple(notes)
