"""Choose the layout of a job: its processes, hosts, ZeRO stage and micro-batch."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from jprep.errors import ConfigError
from jprep.train.backend import DeviceKind, Host, MicroBatchEstimate, Target
from jprep.train.hosts.processes import host_count, processes_per_host
from jprep.train.job.config import Job
from jprep.train.planning.memory_fit import make_target
from jprep.train.planning.micro_batch import check_micro_batch, rows_per_device
from jprep_deepspeed.options import SECTION, Device, Offload, Options
from jprep_deepspeed.planning.checks import check_optimizer, check_options
from jprep_deepspeed.planning.generated_config import generate_config
from jprep_deepspeed.planning.layout_types import SMALLEST_STAGE, STAGES, Layout
from jprep_deepspeed.planning.memory import MemoryEstimate, estimate_memory
from jprep_deepspeed.planning.stage_selection import StageSelector
from jprep_deepspeed.planning.user_config import UserConfig
from jprep_torch.planning.checks import check_experts
from jprep_torch.planning.layout import cuda_or_cpu


class ChosenLayout(NamedTuple):
    """A layout, and all that a plan says about it.

    Attributes:
        layout: the layout.
        options: the backend's options, completed from the user's DeepSpeed configuration.
        processes: number of processes on each host.
        config: DeepSpeed's configuration.
        memory: estimated memory of one process.
        target: the devices that it is made for.
        smaller: smaller micro-batches.
        notes: sentences for the user.
    """

    layout: Layout
    options: Options
    processes: int
    config: dict[str, Any]
    memory: MemoryEstimate
    target: Target
    smaller: tuple[MicroBatchEstimate, ...]
    notes: tuple[str, ...]


def choose_layout(job: Job, given: Options, host: Host) -> ChosenLayout:
    """Choose processes, ZeRO stage and micro-batch of a job.

    Args:
        job: the job.
        given: the backend's options.
        host: this machine.

    Raises:
        ConfigError: the batch cannot be divided, an option is out of range, options exclude each other, or a DeepSpeed
            configuration disagrees with the job.
    """
    check_options(given)
    check_experts(job)
    device: Device = cuda_or_cpu(given, host) if given.device == "auto" else given.device
    processes = processes_per_host(given.processes, host, SECTION, on_gpus=device == "cuda")
    world = processes * host_count(host)
    rows = rows_per_device(job.train.batch, world, SECTION)
    user = UserConfig(given.ds_config)
    options = user.complete_options(given, rows)
    check_options(options)
    check_optimizer(job, options)
    check_micro_batch(rows, options.micro_batch, SECTION)

    config_of, estimate = partial(_config, job, user), partial(_estimate, job, user)
    widest = _widest_layout(options, device, world, rows)
    selector = StageSelector(widest, estimate, _target(options, host, processes, device))
    layout = selector.choose(_allowed_stages(options, world), options.micro_batch)
    user.check_agreement(job, layout)
    return ChosenLayout(
        layout=layout,
        options=options,
        processes=processes,
        config=config_of(layout),
        memory=estimate(layout),
        target=selector.target,
        smaller=selector.smaller(layout),
        notes=(*selector.notes(layout), *user.notes(job, layout)),
    )


def _config(job: Job, user: UserConfig, layout: Layout) -> dict[str, Any]:
    """Return DeepSpeed's configuration for a layout."""
    return user.merge_into(generate_config(job, layout), job, layout)


def _estimate(job: Job, user: UserConfig, layout: Layout) -> MemoryEstimate:
    return estimate_memory(job, layout, _config(job, user, layout)["zero_optimization"])


def _widest_layout(options: Options, device: Device, world: int, rows: int) -> Layout:
    """Return the layout that the options ask for, unsharded and with all rows of a process as micro-batch."""
    return Layout(
        device=device,
        world=world,
        micro_batch=rows,
        accumulate=1,
        stage=0,
        offload_optimizer=_optimizer_place(options),
        offload_param=options.offload_param == "cpu",
        nvme_path=options.nvme_path,
        gradient_checkpointing=options.gradient_checkpointing,
    )


def _optimizer_place(options: Options) -> Offload:
    return "none" if options.offload_optimizer == "auto" else options.offload_optimizer


def _allowed_stages(options: Options, world: int) -> list[int]:
    """Return the ZeRO stages that the options allow, the smallest first."""
    name, place = "offload_optimizer", _optimizer_place(options)
    smallest = SMALLEST_STAGE[place]
    if options.offload_param == "cpu":
        name, place, smallest = "offload_param", "cpu", max(STAGES)
    if options.stage == "auto":
        return list(range(smallest, 4 if world > 1 else smallest + 1))
    if options.stage < smallest:
        fix = "stage = 3" if smallest == max(STAGES) else "stage = 1, 2 or 3"
        what = f'{name} = "{place}" is not available in ZeRO stage {options.stage}'
        raise ConfigError(what, where=f"{SECTION}.stage", fix=f'{fix}, or {name} = "none"')
    return [options.stage]


def _target(options: Options, host: Host, processes: int, device: Device) -> Target:
    """Return the devices to plan for. Of hosts other than this one only what the options say is known."""
    kind: DeviceKind = "gpu" if device == "cuda" else "cpu"
    hosts = host_count(host)
    return make_target(host, kind, per_host=processes, hosts=hosts, machine=options, section=SECTION)
