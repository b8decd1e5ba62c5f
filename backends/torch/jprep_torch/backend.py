"""The light half: the backend's options, and how a job is divided among processes and micro-batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from jprep.errors import ConfigError, JprepError
from jprep.train.backend import Environment, Finding, Host, MicroBatchEstimate, Plan, Target, default_environment
from jprep.train.job.config import Job
from jprep.train.launcher.environments import worker_python
from jprep.train.launcher.import_probe import probe_output
from jprep.train.models import training_memory
from jprep.train.planning.host import accelerators, tpu_count
from jprep.train.planning.memory_fit import (
    DeviceKind,
    choose_micro_batch,
    fits_memory,
    make_target,
    smaller_micro_batches,
)
from jprep_torch.planning import xla

SECTION = "train.backend.torch"
"""The section of the options."""

DEVICE_FIXES = {
    "GPU": 'device = "cpu" among the backend\'s options, or a PyTorch that is built for this GPU',
    "TPU": 'a machine with TPUs (v4 and later) and torch_tpu, or device = "xla"',
}
"""What to do where PyTorch finds no such device."""

_ABOUT = "import {}torch, transformers as t; print(torch.__version__, t.__version__, torch.accelerator.device_count())"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[train.backend.torch]`.

    Attributes:
        device: `auto` takes GPUs where there are some. `xla` is a TPU by torch_xla, or where there is none XLA on the
            CPU; `tpu` is one by torch_tpu. Each of these two has an environment of its own.
        devices: of `xla` on each host, that one process divides the batch among; 0 is all that this machine has.
            Without TPUs they are virtual, for trials.
        hosts: of a TPU slice, each with a process: together they run one program on all devices.
        processes: how many; 0 is one for each GPU, for each device of `tpu`, or one.
        rows: rows that go through the model at a time on each device; 0 is as many as the estimate says will fit.
        shard: whether weights, gradients and optimizer are divided among the processes (FSDP2); `auto` does it where
            they would not fit otherwise.
        compile: whether torch.compile makes the model's kernels; the first steps then take some tens of seconds.
        recompute: keep each layer's input only, and compute the rest again on the way back: a third slower.
        deterministic: on GPUs, take kernels whose results do not depend on the order that threads come in.
        threads: of each process on a CPU; 0 divides the cores.
        memory: GiB of each device, or on a CPU of each process: for TPUs, whose memory jprep cannot find out, and to
            plan for another machine; 0 is this machine's.
    """

    device: Literal["auto", "cpu", "cuda", "xla", "tpu"] = "auto"
    devices: int = 0
    hosts: int = 1
    processes: int = 0
    rows: int = 0
    shard: Literal["auto", "yes", "no"] = "auto"
    compile: bool = False
    recompute: bool = False
    deterministic: bool = True
    threads: int = 0
    memory: float = 0.0


class Layout(NamedTuple):
    """How a global batch lies on the devices: so many processes, so many rows at a time, sharded or not.

    Attributes:
        processes: how many on each host.
        rows: of each, or of all hosts together, that go through the model at a time.
        shard: whether the model is divided.
        memory: bytes on one device, estimated.
        target: what it is for.
        smaller: smaller micro-batches.
        devices: of XLA, of all hosts, among which rows are divided.
        hosts: how many.
    """

    processes: int
    rows: int
    shard: bool
    memory: int
    target: Target
    smaller: tuple[MicroBatchEstimate, ...]
    devices: int = 1
    hosts: int = 1


class Torch:
    """PyTorch on a CPU, one GPU or several, or TPUs."""

    name: ClassVar[str] = "torch"
    module: ClassVar[str] = "jprep_torch"
    distribution: ClassVar[str] = "jprep-torch"
    Options: ClassVar[type[Any]] = Options

    def home(self, options: Any) -> Environment:
        """One for CPUs and GPUs; torch_xla and torch_tpu want a PyTorch for themselves."""
        own = msgspec.structs.replace(default_environment(self), also=(xla.TORCH_XLA_ENVIRONMENT.name,))
        return {"xla": xla.TORCH_XLA_ENVIRONMENT, "tpu": xla.TORCH_TPU_ENVIRONMENT}.get(options.device, own)

    def check(self, options: Any) -> list[Finding]:
        """What its environment holds, and whether the device that is asked for is there."""
        home = self.home(options)
        fix = f"jprep backends install {home.install} --restart"
        try:
            versions = _ask(worker_python(self, options), home.needs)
        except JprepError as error:
            return [Finding(error.what, "error", error.fix or fix)]
        torch, transformers, count = versions.split()
        what = f"PyTorch {torch}, transformers {transformers}"
        if options.device == "xla":
            return [Finding(f"{what}, torch_xla, {tpu_count()} TPUs")]
        kind = "TPU" if options.device == "tpu" else "GPU"
        found = [Finding(f"{what}, {count} {kind}s that it can use")]
        if count == "0" and (options.device in ("cuda", "tpu") or (options.device == "auto" and accelerators())):
            elsewhere = options.memory and not (accelerators() or tpu_count())
            what = f"planned for another machine: this one has no {kind}" if elsewhere else f"PyTorch finds no {kind}"
            found.append(Finding(what, "note" if elsewhere else "error", DEVICE_FIXES[kind]))
        return found

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """One process, or torchrun with several.

        Raises:
            ConfigError: the batch cannot be divided, or an option is out of its range.
        """
        options = msgspec.convert(job.options, Options)
        device = options.device if options.device != "auto" else "cuda" if host.devices else "cpu"
        layout = _layout(job, options, host, device)
        verb = ["train", str(run), "--rows", str(layout.rows), "--device", device]
        verb += ["--shard"] if layout.shard else []
        verb += xla.worker_flags(layout.devices, layout.hosts) if device == "xla" else []
        env = worker_environment(host, device, layout.processes, options.threads, deterministic=options.deterministic)
        return Plan(
            argv=(host.python, *_launcher(device, layout.processes), "jprep_torch.worker", *verb),
            env=env | (xla.environment_variables(layout.devices) if device == "xla" else {}),
            processes=layout.processes * layout.hosts,
            machines=layout.hosts,
            rows=layout.rows // layout.hosts,
            accumulate=job.train.batch // layout.processes // layout.rows,
            memory=layout.memory,
            notes=_notes(device, layout, run),
            target=layout.target,
            smaller=layout.smaller,
        )


def _ask(python: Path, needs: str) -> str:
    return probe_output(python, _ABOUT.format(f"{needs}, " if needs else ""))


def _launcher(device: str, processes: int) -> list[str]:
    if device == "tpu" and processes > 1:
        return ["-m", "jprep_torch.worker.launcher", str(processes)]
    return torchrun_command(processes)


def _notes(device: str, layout: Layout, run: Path) -> tuple[str, ...]:
    if device == "tpu":
        return (f"{layout.processes} TPU devices by torch_tpu, a process on each; jprep was not tried with it yet",)
    return xla.plan_notes(run, layout.devices, layout.hosts) if device == "xla" else ()


def torchrun_command(processes: int, port: int = 0) -> list[str]:
    """What comes between the interpreter and the worker's module.

    Args:
        processes: of this machine.
        port: where they meet; 0 is one that is free.
    """
    if processes == 1:
        return ["-m"]
    where = ["--master-port", str(port)] if port else ["--standalone"]
    return ["-m", "torch.distributed.run", *where, "--nproc-per-node", str(processes), "-m"]


def worker_environment(host: Host, device: str, processes: int, threads: int, *, deterministic: bool) -> dict[str, str]:
    """The worker's variables.

    Args:
        host: the machine.
        device: `cpu`, `cuda`, `xla` or `tpu`.
        processes: of this machine.
        threads: of each process; 0 divides the cores.
        deterministic: whether a GPU's kernels may not depend on the order that threads come in.
    """
    env = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    env["PYTHONSAFEPATH"] = "1"  # no file of the working directory is taken for a library
    # Sums depend on the number of threads: it belongs to the plan, not to whoever starts the worker.
    env["OMP_NUM_THREADS"] = str(threads or max(1, host.cores // processes))
    if processes == 1:  # a cluster may have set what torchrun would have set
        env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    if device == "cuda" and deterministic:
        env["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return env


def _layout(job: Job, options: Options, host: Host, device: str) -> Layout:
    processes, devices = _processes(job, options, host, device), 1
    xla.check_hosts(options.hosts, device, SECTION)
    if device in xla.XLA_DEVICES:
        _check_compiled(job, options, device)
    if device == "xla":
        devices = xla.xla_device_count(options.devices, options.hosts)
    own = _own_rows(job, processes * devices)
    target = _target(options, host, device, processes * devices)

    def takes(rows: int, parts: int) -> int:
        return _memory(job, options, device, rows, parts)

    def fits(rows: int, parts: int) -> bool:
        return fits_memory(target, takes(rows, parts)) is not False

    whole = processes == 1 or device == "tpu"
    shard = options.shard == "yes" or (options.shard == "auto" and not whole and not fits(1, 1))
    parts = processes if shard else 1
    rows = choose_micro_batch(own, options.rows, lambda rows: fits(rows, parts), SECTION)
    smaller = smaller_micro_batches(own, rows, lambda fewer: takes(fewer, parts))
    return Layout(processes, rows * devices, shard, takes(rows, parts), target, smaller, devices, options.hosts)


def _target(options: Options, host: Host, device: str, devices: int) -> Target:
    """The devices that a plan is for: without TPUs, XLA's are played by the CPU and share its memory."""
    tpu = device == "tpu" or (device == "xla" and tpu_count() > 0)
    kind: DeviceKind = "tpu" if tpu else "gpu" if device == "cuda" else "cpu"
    return make_target(host, kind, per_host=devices // options.hosts, hosts=options.hosts, given=options.memory)


def _check_compiled(job: Job, options: Options, device: str) -> None:
    if job.train.data or job.train.precision == "fp16":
        fix = "take another device for it, or the backend flax"
        raise ConfigError(f"device {device} is for packed text in fp32 or bf16", where=f"{SECTION}.device", fix=fix)
    if options.shard == "yes":
        fix = "leave it out, or take the backend flax, which divides them"
        raise ConfigError(f"on device {device} weights are whole on each", where=f"{SECTION}.shard", fix=fix)
    if device == "xla" and (options.processes > 1 or options.compile):
        fix = f"leave processes and compile as they are; {SECTION}.devices divides the batch"
        raise ConfigError("XLA's devices have one process of a host", where=SECTION, fix=fix)


def _own_rows(job: Job, parts: int) -> int:
    """Rows of a global batch for each device or process."""
    batch = job.train.batch
    if batch % parts:
        fix = f"take a multiple of {parts} as train.batch, or fewer processes or devices under {SECTION}"
        what = f"a batch of {batch} rows cannot be divided among {parts} processes or devices"
        raise ConfigError(what, where=SECTION, fix=fix)
    return batch // parts


def _processes(job: Job, options: Options, host: Host, device: str) -> int:
    if min(options.processes, options.devices, options.rows, options.threads, options.memory) < 0:
        what = "processes, devices, rows, threads and memory are 0 or more"
        raise ConfigError(what, where=SECTION, fix="0 lets jprep choose")
    return options.processes or {"cuda": len(host.devices), "tpu": tpu_count()}.get(device) or 1


def _memory(job: Job, options: Options, device: str, rows: int, parts: int) -> int:
    """Bytes on one device, if weights and optimizer are divided into so many parts."""
    section, model = job.train, job.model
    length = section.labelled.length if section.data else section.length
    drops = model.get("attention_probs_dropout_prob") or model.get("attn_pdrop") or model.get("attention_dropout")
    attention = bool(drops) and device == "cpu"  # GPUs have a kernel for it

    def estimate(rows: int) -> int:
        return training_memory(model, section.task, rows, length, section.precision, attention=attention, lean=True)

    state, halves = estimate(0), 0 if section.precision == "fp32" else 2 * job.parameters
    kept = estimate(rows) - state
    if options.recompute:  # one layer's share, and each layer's input
        kept = kept // 3
    return (state - halves) // parts + halves + kept  # autocast keeps halves whole until the way back
