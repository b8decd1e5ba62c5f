"""The light half: the backend's options, and how a job is divided among processes and micro-batches."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from jprep.errors import ConfigError, JprepError
from jprep.train.backend import Finding, Host, Plan
from jprep.train.environments import python_of
from jprep.train.host import accelerators
from jprep.train.job import Job
from jprep.train.models import training_memory

WHERE = "train.backend.torch"
"""The section of the options."""

_SHARE = 0.85  # of a device's memory that a plan fills; the rest is the libraries' own
_MOST = 1 << 14  # rows at a time that are thought of
_LOOK = 60  # seconds that the framework has to be imported in
_ABOUT = "import torch, transformers as t; print(torch.__version__, t.__version__, torch.cuda.device_count())"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[train.backend.torch]`.

    Attributes:
        device: `auto` takes GPUs where there are some.
        processes: how many; 0 is one for each GPU, or one.
        rows: rows that go through the model at a time on each device; 0 is as many as the estimate says will fit.
        shard: whether weights, gradients and optimizer are divided among the processes (FSDP2); `auto` does it where
            they would not fit otherwise.
        compile: whether torch.compile makes the model's kernels; the first steps then take some tens of seconds.
        recompute: keep each layer's input only, and compute the rest again on the way back: a third slower.
        deterministic: on GPUs, take kernels whose results do not depend on the order that threads come in.
        threads: of each process on a CPU; 0 divides the cores.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: int = 0
    rows: int = 0
    shard: Literal["auto", "yes", "no"] = "auto"
    compile: bool = False
    recompute: bool = False
    deterministic: bool = True
    threads: int = 0


class Layout(NamedTuple):
    """How a global batch lies on the devices: so many processes, so many rows at a time, sharded or not."""

    processes: int
    rows: int
    shard: bool
    memory: int


class Torch:
    """PyTorch on a CPU, one GPU or several."""

    name: ClassVar[str] = "torch"
    module: ClassVar[str] = "jprep_torch"
    distribution: ClassVar[str] = "jprep-torch"
    Options: ClassVar[type[Any]] = Options

    def check(self, options: Any) -> list[Finding]:
        """What its environment holds, and whether the device that is asked for is there."""
        fix = f"jprep backends install {self.name}"
        try:
            versions = _ask(python_of(self.name, self.module))
        except JprepError as error:
            return [Finding(error.what, "error", error.fix or fix)]
        except subprocess.SubprocessError as error:
            return [Finding(f"the backend torch cannot run: {error}", "error", fix)]
        torch, transformers, gpus = versions.split()
        found = [Finding(f"PyTorch {torch}, transformers {transformers}, {gpus} GPUs that it can use")]
        if gpus == "0" and (options.device == "cuda" or (options.device == "auto" and accelerators())):
            fix = 'device = "cpu", or a PyTorch that is built for this GPU'
            found.append(Finding("PyTorch finds no GPU", "error", fix))
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
        return Plan(
            argv=(host.python, *torchrun(layout.processes), "jprep_torch.worker", *verb),
            env=environment(host, device, layout.processes, options.threads, deterministic=options.deterministic),
            processes=layout.processes,
            rows=layout.rows,
            accumulate=job.train.batch // layout.processes // layout.rows,
            memory=layout.memory,
        )


def _ask(python: Path) -> str:
    command = [str(python), "-P", "-c", _ABOUT]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LOOK)
    if done.returncode:
        raise ConfigError((done.stderr.strip().splitlines() or ["it says nothing"])[-1])
    return done.stdout


def torchrun(processes: int, port: int = 0) -> list[str]:
    """What comes between the interpreter and the worker's module.

    Args:
        processes: of this machine.
        port: where they meet; 0 is one that is free.
    """
    if processes == 1:
        return ["-m"]
    where = ["--master-port", str(port)] if port else ["--standalone"]
    return ["-m", "torch.distributed.run", *where, "--nproc-per-node", str(processes), "-m"]


def environment(host: Host, device: str, processes: int, threads: int, *, deterministic: bool) -> dict[str, str]:
    """The worker's variables.

    Args:
        host: the machine.
        device: `cpu` or `cuda`.
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
    processes = _processes(job, options, host, device)
    own = job.train.batch // processes
    if options.rows and own % options.rows:
        fix = f"take a divisor of {own}, the rows of each process"
        raise ConfigError(f"{own} rows cannot be taken {options.rows} at a time", where=f"{WHERE}.rows", fix=fix)
    memory = host.device_memory if device == "cuda" else host.memory // processes

    def takes(rows: int, parts: int) -> int:
        return _memory(job, options, device, rows, parts)

    def fits(rows: int, parts: int) -> bool:
        return not memory or takes(rows, parts) <= _SHARE * memory

    shard = options.shard == "yes" or (options.shard == "auto" and processes > 1 and not fits(1, 1))
    parts = processes if shard else 1
    rows = options.rows or next((n for n in range(min(own, _MOST), 0, -1) if own % n == 0 and fits(n, parts)), 1)
    return Layout(processes, rows, shard, takes(rows, parts))


def _processes(job: Job, options: Options, host: Host, device: str) -> int:
    if min(options.processes, options.rows, options.threads) < 0:
        raise ConfigError("processes, rows and threads are 0 or more", where=WHERE, fix="0 lets jprep choose")
    batch, processes = job.train.batch, options.processes or (len(host.devices) if device == "cuda" else 0) or 1
    if batch % processes:
        fix = f"take a multiple of {processes} as train.batch, or set {WHERE}.processes"
        raise ConfigError(
            f"a batch of {batch} rows cannot be divided among {processes} processes", where=WHERE, fix=fix
        )
    return processes


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
