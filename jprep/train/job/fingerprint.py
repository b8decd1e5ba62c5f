"""What a run's weights depend on, and when a run may get more steps than it began with."""

from __future__ import annotations

from typing import Any

import msgspec

from jprep.engine.fingerprint import fingerprint, plain
from jprep.errors import MismatchError
from jprep.train.job.config import FORMAT, UNFINGERPRINTED_KEYS, Job, ScheduleConfig, TrainConfig
from jprep.train.job.schedule import gives_same_rates

_ELSEWHERE = ("model", "data", "validation_data", "backend", "steps", "epochs", *UNFINGERPRINTED_KEYS)


def job_fingerprint(
    train: TrainConfig, model: dict[str, Any], steps: int, made_from: dict[str, Any], computed: dict[str, Any]
) -> str:
    """Return the hash of what the weights depend on: all but paths, the backend, and what is only logged or kept.

    Args:
        train: the section.
        model: transformers' config.
        steps: of the run.
        made_from: hashes of what it reads.
        computed: the backend's options that change what is computed.
    """
    section = {key: value for key, value in plain(msgspec.structs.asdict(train)).items() if key not in _ELSEWHERE}
    if not section["schedule"]["steps"]:
        del section["schedule"]["steps"]  # jobs of earlier versions keep their fingerprint
    options = {"options": computed} if computed else {}
    fields = {"format": FORMAT, "train": section, "model": model, "steps": steps, **made_from, **options}
    return fingerprint(plain(fields))


def extend_job(job: Job, before: Job, where: str) -> Job | None:
    """Return a job as the continuation of one that has fewer steps and is the same otherwise; None for other jobs.

    Args:
        job: what is asked for.
        before: what the run directory holds.
        where: the run directory, for errors.

    Raises:
        MismatchError: up to the end of the shorter run the learning rates would have been others.
    """
    if job.steps <= before.steps or not job.made_from:
        return None
    as_before = msgspec.structs.replace(job.train, schedule=before.train.schedule)
    if job_fingerprint(as_before, job.model, before.steps, job.made_from, job.computed) != before.fingerprint:
        return None
    if not gives_same_rates(before.train.schedule, before.steps, job.train.schedule, job.steps):
        raise MismatchError(_difference(job, before), where=where, fix=_fix(job, before))
    return msgspec.structs.replace(job, earlier=[*before.earlier, before.fingerprint])


def _difference(job: Job, before: Job) -> str:
    kind, old = before.train.schedule.kind, before.train.schedule.steps or before.steps
    new = job.train.schedule.steps or job.steps
    what = f"this run cannot get {job.steps:,} steps instead of {before.steps:,}"
    if _without_end(job) != _without_end(before):
        return f"{what}: with another train.schedule, the steps that are done would have had other learning rates"
    what += f": its learning rate falls ({kind})"
    return f"{what} until step {old:,}, and with these options it would have fallen until step {new:,}, by other rates"


def _without_end(job: Job) -> ScheduleConfig:
    return msgspec.structs.replace(job.train.schedule, steps=0)


def _fix(job: Job, before: Job) -> str:
    if _without_end(job) != _without_end(before):
        return "give the run's first train.schedule, or another -o"
    schedule, end = before.train.schedule, before.train.schedule.steps or before.steps
    rate = before.train.optimizer.lr * schedule.floor
    if rate:
        return f"--set train.schedule.steps={end} trains on at {rate:g}, the rate that it ends at; or give another -o"
    return (
        "give another -o; to train on from these weights: `jprep export` this run, then model.init = "
        '"EXPORT/model.safetensors" in a new run (the rate of this one has reached 0)'
    )
