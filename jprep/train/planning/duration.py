"""Estimate the duration of a run, and warn if it or the number of epochs is unreasonable."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from jprep.plurals import counted
from jprep.train.backend import Host, Plan, Target
from jprep.train.job.config import Job
from jprep.train.models import FAMILIES
from jprep.train.models.flops import flops_per_token, peak_flops
from jprep.train.planning.memory_fit import default_target

MANY_DAYS, MANY_EPOCHS = 30, 100
"""Limits above which a run gets a warning."""

_DEVICE_SHARE, _CPU_SHARE = 0.35, 0.5
"""The assumed share of the peak of a GPU or TPU, and of a CPU's matrix multiplication rate, that training reaches."""

_CHECKPOINTING_FACTOR = 4 / 3  # one more forward pass
_MATRIX_SIZE, _MEASURE_SECONDS = 256, 0.05
_DAY = 86_400
_UNITS = ((_DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


class Duration(NamedTuple):
    """The estimated duration of a run.

    Attributes:
        seconds: the duration; None if the device's speed is unknown.
        text: the duration as text, with what it is computed from.
    """

    seconds: float | None
    text: str


class Speed(NamedTuple):
    """The speed of a run's devices.

    Attributes:
        rate: the FLOP/s that training reaches on all devices together.
        source: what that is computed from, as text.
    """

    rate: float
    source: str


def estimate_duration(job: Job, plan: Plan, host: Host) -> Duration:
    """Estimate the duration of a whole run: its FLOPs divided by the devices' speed.

    Reading data, validation, checkpoints and restarts are not included.

    Args:
        job: the job.
        plan: the backend's plan.
        host: the host that it was made on.
    """
    target = plan.target or default_target(plan, host)
    speed = _cpu_speed(target, _cores(job, plan, target, host)) if target.kind == "cpu" else _device_speed(target, job)
    if speed is None or job.model.get("model_type") not in FAMILIES:
        return Duration(None, f"unknown: jprep has no speed of {target.name}{_naming(job, target)}")
    factor = _CHECKPOINTING_FACTOR if job.options.get("gradient_checkpointing") is True else 1.0
    seconds = factor * _flops(job) / speed.rate
    return Duration(seconds, f"about {format_duration(seconds)} on {speed.source}")


def _naming(job: Job, target: Target) -> str:
    """Return which option names a device whose model is not known."""
    key = {"gpu": "gpu=A100-40GB", "tpu": "tpu_type=v3-8"}.get(target.kind)
    return f"; name it: --set train.backend.{job.backend}.{key}" if key and not target.elsewhere else ""


def duration_warnings(job: Job, found: Duration) -> list[str]:
    """Return warnings about an unreasonable duration or number of epochs, with the option to change.

    Args:
        job: the job.
        found: its estimated duration.
    """
    epochs, each = job.epochs(job.steps), math.ceil(job.samples / job.train.batch)
    warned = []
    if found.seconds and found.seconds > MANY_DAYS * _DAY:
        ways = "fewer steps (train.steps), a smaller model (train.model.preset), or a faster device"
        warned.append(f"the run would take about {format_duration(found.seconds)}: use {ways}")
    if epochs > MANY_EPOCHS:
        what = f"{job.steps:,} steps go through the training data {epochs:,.0f} times"
        warned.append(f"{what}: --set train.steps={each} is one epoch; or add data to the corpus")
    return warned


def format_duration(seconds: float) -> str:
    """Return a duration with two digits, in the largest unit that gives at least 2."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), _UNITS[-1])
    number = seconds / size
    rounded = max(1, round(number, 1 - math.floor(math.log10(max(number, 1)))))
    return f"{rounded:,.0f} {unit if round(rounded) > 1 else unit.removesuffix('s')}"


def _flops(job: Job) -> float:
    section = job.train
    return float(
        sum(
            max(0, end - max(begin, job.steps_before))
            * section.batch
            * length
            * flops_per_token(job.model, job.parameters, length)
            for begin, end, length in section.lengths_until(job.steps)
        )
    )


def _cores(job: Job, plan: Plan, target: Target, host: Host) -> int:
    """Return the cores of each host that the run uses: all, unless the backend's option `threads` limits them."""
    threads = job.options.get("threads", 0) * -(-plan.processes // target.count)
    return min(host.cores, threads) if threads else host.cores


def _cpu_speed(target: Target, cores: int) -> Speed:
    rate, each = core_rate(), counted(cores, "core")
    share = f"of which training is assumed to use {_CPU_SHARE:.0%}"
    source = f"{target.count} × {each}" if target.count > 1 else each
    source += f" like this machine's ({rate / 1e9:.0f} GFLOP/s each, {share})"
    return Speed(_CPU_SHARE * rate * cores * target.count, source)


def _device_speed(target: Target, job: Job) -> Speed | None:
    best = peak_flops(target.name, half=job.train.precision != "fp32")
    if best is None:
        return None
    share = f"of which training is assumed to use {_DEVICE_SHARE:.0%}"
    source = f"{target.count} × {target.name} ({best / 1e12:.4g} TFLOP/s each, {share})"
    return Speed(_DEVICE_SHARE * best * target.count, source)


def core_rate() -> float:
    """Measure the fp32 FLOP/s of one core: the best of many matrix multiplications, by CPU time.

    Other programs can only slow a multiplication down, so the best one counts. The command line limits NumPy to one
    thread; with more, this is the rate of all of them.
    """
    import numpy as np

    matrix, begun, best = np.ones((_MATRIX_SIZE, _MATRIX_SIZE), np.float32), time.thread_time(), math.inf
    while (now := time.thread_time()) - begun < _MEASURE_SECONDS or best == math.inf:
        _ = matrix @ matrix
        best = min(best, max(time.thread_time() - now, 1e-9))
    return 2 * _MATRIX_SIZE**3 / best
