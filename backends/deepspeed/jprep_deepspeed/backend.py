"""The light half: how a job is divided among processes, hosts and ZeRO's stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec

from jprep.errors import ConfigError
from jprep.train.backend import Finding, Host, Plan, Target
from jprep.train.job.config import Job
from jprep.train.planning.memory_fit import check_micro_batch, make_target
from jprep_deepspeed.options import SECTION, Layout, Options
from jprep_deepspeed.planning.checks import findings
from jprep_deepspeed.planning.generated_config import settings
from jprep_deepspeed.planning.gpu_models import gpu_memory
from jprep_deepspeed.planning.launch import HostList, find_hosts, launch
from jprep_deepspeed.planning.memory import MemoryEstimate, memory
from jprep_deepspeed.planning.stage_selection import StageSelector
from jprep_deepspeed.planning.user_config import UserConfig

__all__ = ["SECTION", "DeepSpeed", "Options"]


class DeepSpeed:
    """ZeRO on CPUs and GPUs, of one host or many."""

    name: ClassVar[str] = "deepspeed"
    module: ClassVar[str] = "jprep_deepspeed"
    distribution: ClassVar[str] = "jprep-deepspeed"
    Options: ClassVar[type[Any]] = Options

    def check(self, options: Any) -> list[Finding]:
        """What its environment holds, and what would stop a run with these options on this machine."""
        return findings(self, options)

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """One process, or a launcher of several.

        Raises:
            ConfigError: the batch cannot be divided, an option is out of its range or does not go with another, the
                hosts cannot be had, or a DeepSpeed configuration says something else than the job.
        """
        given = _in_range(msgspec.convert(job.options, Options))
        hosts = find_hosts(given, host, _device(given, host))
        own = _own_rows(job, given, hosts)
        config = UserConfig(given.ds_config)
        options = _in_range(config.adopted(given, own))
        fitting = _fitting(job, options, host, hosts, own, config)
        layout = fitting.choose(_stages(options, hosts.world), options.rows)
        config.agree(job, layout)
        chosen = config.joined(settings(job, layout), job, layout)
        verb = ["train", str(run), "--settings", msgspec.json.encode(chosen).decode(), "--device", layout.device]
        started = launch(options, hosts, host, layout.device, verb + (["--recompute"] if options.recompute else []))
        taken = _memory(job, config, layout)
        return Plan(
            argv=started.argv,
            env=started.env,
            processes=layout.world,
            rows=layout.rows,
            accumulate=layout.accumulate,
            memory=taken.total,
            notes=(*fitting.notes(layout), *config.notes(job), *started.notes),
            settings=chosen,
            target=fitting.target,
            host_memory=taken.host,
            smaller=fitting.smaller(layout),
        )


def _in_range(options: Options) -> Options:
    if min(options.processes, options.rows, options.threads, options.port, options.host_memory) < 0:
        what = "processes, rows, threads, port and host_memory are 0 or more"
        raise ConfigError(what, where=SECTION, fix="0 lets jprep choose")
    if options.gpu and options.device == "cpu":
        fix = 'device = "cuda" or "auto" to plan for that GPU, or leave gpu out'
        raise ConfigError(f"gpu = {options.gpu!r} says nothing of device cpu", where=f"{SECTION}.gpu", fix=fix)
    return options


def _device(options: Options, host: Host) -> str:
    if options.device != "auto":
        return options.device
    return "cuda" if host.devices or options.gpu else "cpu"


def _own_rows(job: Job, options: Options, hosts: HostList) -> int:
    """Rows of each process in a batch."""
    own, rest = divmod(job.train.batch, hosts.world)
    if rest or not own:
        fix = f"take a multiple of {hosts.world} as train.batch, or set {SECTION}.processes"
        what = f"a batch of {job.train.batch} rows cannot be divided among {hosts.world} processes"
        raise ConfigError(what, where=SECTION, fix=fix)
    return own


def _fitting(job: Job, options: Options, host: Host, hosts: HostList, own: int, config: UserConfig) -> StageSelector:
    """What finds the layout of the job on its devices."""
    check_micro_batch(own, options.rows, SECTION)
    device, away = _device(options, host), (options.offload_optimizer == "cpu", options.offload_param == "cpu")
    whole = Layout("cuda" if device == "cuda" else "cpu", hosts.world, own, 1, 0, *away, options.recompute)
    return StageSelector(whole, lambda layout: _memory(job, config, layout), _target(options, host, hosts, device))


def _stages(options: Options, world: int) -> list[int]:
    """ZeRO's stages that may be, the smallest first."""
    least = 3 if options.offload_param == "cpu" else 1 if options.offload_optimizer == "cpu" else 0
    if options.stage == "auto":
        return list(range(least, 4 if world > 1 else least + 1))
    if options.stage < least:
        name, fix = ("offload_param", "stage = 3") if least == 3 else ("offload_optimizer", "stage = 1, 2 or 3")
        what = f'{name} = "cpu" is not for ZeRO\'s stage {options.stage}'
        raise ConfigError(what, where=f"{SECTION}.stage", fix=f'{fix}, or {name} = "none"')
    return [options.stage]


def _target(options: Options, host: Host, hosts: HostList, device: str) -> Target:
    """The devices to plan for. Of a host that is not this one nothing is known but what the options say."""
    given, machines = options.host_memory / hosts.processes, max(1, len(hosts.names))
    if device == "cpu":
        return make_target(host, "cpu", per_host=hosts.processes, hosts=machines, given=given)
    found = make_target(host, "gpu", per_host=hosts.processes, hosts=machines)
    each = int(given * 2**30)
    if options.gpu:
        size = gpu_memory(options.gpu)
        return msgspec.structs.replace(found, name=options.gpu, memory=size, host_memory=each)
    return msgspec.structs.replace(found, host_memory=each or found.host_memory)


def _memory(job: Job, config: UserConfig, layout: Layout) -> MemoryEstimate:
    return memory(job, layout, config.joined(settings(job, layout), job, layout)["zero_optimization"])
