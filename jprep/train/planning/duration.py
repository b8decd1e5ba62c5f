"""Estimates how long a run takes, and warns where that or the number of epochs is absurd."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from jprep.train.backend import Host, Plan, Target
from jprep.train.job.config import Job
from jprep.train.models import FAMILIES
from jprep.train.models.flops import flops_per_token, peak_flops
from jprep.train.planning.memory_fit import default_target

MANY_DAYS, MANY_EPOCHS = 30, 100
"""A longer run, or one that sees its data more often, gets a warning."""

_GPU_SHARE, _CPU_SHARE = 0.35, 0.5
"""Of the peak, and of a matrix product's rate: what training was seen to reach with models that fill the device."""

_RECOMPUTED = 4 / 3  # one way forward more
_SIDE, _MEASURED = 256, 0.05  # of the matrices; CPU seconds
_DAY = 86_400
_UNITS = ((_DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


class Duration(NamedTuple):
    """How long a run takes.

    Attributes:
        seconds: about; None where the device's speed is not known.
        text: the same in words, with what it is computed from.
    """

    seconds: float | None
    text: str


class Speed(NamedTuple):
    """What the devices of a run do.

    Attributes:
        rate: FLOP/s of all of them together, as far as training uses it.
        source: what that is computed from.
    """

    rate: float
    source: str


def estimate_duration(job: Job, plan: Plan, host: Host) -> Duration:
    """Estimate how long a run takes from its beginning to its end: its arithmetic divided by the devices' speed.

    Reading data, validation, checkpoints and restarts do not count.
    """
    target = plan.target or default_target(plan, host)
    speed = _speed(target, host, half=job.train.precision != "fp32")
    if speed is None or job.model.get("model_type") not in FAMILIES:
        return Duration(None, f"not known: jprep has no figure for the speed of {target.name}")
    again = _RECOMPUTED if job.options.get("recompute") is True else 1.0
    seconds = again * _flops(job) / speed.rate
    return Duration(seconds, f"about {format_duration(seconds)} on {speed.source}")


def duration_warnings(job: Job, found: Duration) -> list[str]:
    """Return what is absurd about a run, each with the option that changes it.

    Args:
        job: the job.
        found: its duration.
    """
    epochs, each = job.steps * job.train.batch / job.samples, math.ceil(job.samples / job.train.batch)
    warned = []
    if found.seconds and found.seconds > MANY_DAYS * _DAY:
        ways = "fewer steps (train.steps), a smaller model (train.model.preset), or a faster device"
        warned.append(f"the run would take about {format_duration(found.seconds)}: take {ways}")
    if epochs > MANY_EPOCHS:
        what = f"{job.steps:,} steps go through the training data {epochs:,.0f} times"
        warned.append(f"{what}: --set train.steps={each} is one epoch; or add data to the corpus")
    return warned


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least two, with two digits."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), _UNITS[-1])
    number = seconds / size
    rounded = max(1, round(number, 1 - math.floor(math.log10(max(number, 1)))))
    return f"{rounded:,.0f} {unit if round(rounded) > 1 else unit.removesuffix('s')}"


def _flops(job: Job) -> float:
    section = job.train
    length = section.labelled.length if section.data else section.length
    return float(job.steps * section.batch * length * flops_per_token(job.model, job.parameters, length))


def _speed(target: Target, host: Host, *, half: bool) -> Speed | None:
    if target.kind == "cpu":
        rate = core_rate()
        source = f"{target.count} × {host.cores} cores" if target.count > 1 else f"{host.cores} cores"
        source += f" like this machine's ({rate / 1e9:.0f} GFLOP/s each, of which training uses {_CPU_SHARE:.0%})"
        return Speed(_CPU_SHARE * rate * host.cores * target.count, source)
    best = peak_flops(target.name, half=half) if target.kind == "gpu" else None
    if best is None:
        return None
    source = f"{target.count} × {target.name} ({best / 1e12:g} TFLOP/s each, of which training uses {_GPU_SHARE:.0%})"
    return Speed(_GPU_SHARE * best * target.count, source)


def core_rate() -> float:
    """Measure FLOP/s of one core in fp32: the best of many products of matrices, by CPU time.

    Other programs can only make a product slower, so the best is what the core does. The command line limits NumPy to
    one thread; with more, this is what they do together.
    """
    import numpy as np

    matrix, begun, best = np.ones((_SIDE, _SIDE), np.float32), time.thread_time(), math.inf
    while (now := time.thread_time()) - begun < _MEASURED or best == math.inf:
        _ = matrix @ matrix
        best = min(best, max(time.thread_time() - now, 1e-9))
    return 2 * _SIDE**3 / best
