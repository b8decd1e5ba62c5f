"""The fingerprint of a job, and the extension of a run to more steps."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from jprep.dataset.mix import has_same_rows
from jprep.engine.fingerprint import fingerprint, plain
from jprep.errors import MismatchError
from jprep.toml_values import toml
from jprep.train.job.config import FORMAT, UNFINGERPRINTED_KEYS, Job, TrainConfig
from jprep.train.optimization.schedule import ScheduleConfig, gives_same_rates

_LATER_KEYS: tuple[tuple[str, str, Any], ...] = (
    ("schedule", "steps", 0), ("schedule", "decay_steps", 0), ("schedule", "decay_shape", "1-sqrt"),
    ("schedule", "restarts", []), ("schedule", "restart_warmup", 0), ("optimizer", "decay", "matrices"),
    ("optimizer", "kind", "adamw"), ("optimizer", "momentum", 0.95), ("optimizer", "layer_decay", 1.0),
    ("", "class_weights", ""),
    ("", "next_sentence", False), ("", "document_masks", False), ("", "stages", []), ("", "z_loss", 0.0),
    ("labelled", "stratify", ""), ("labelled", "bins", 0), ("labelled", "columns", []),
    ("labelled", "encoding", "utf-8"), ("", "drop_last", False),
)  # fmt: skip
"""Keys that earlier versions did not have, with their tables and defaults: jobs without them keep their fingerprint."""

_LATER_TABLES = ("rtd",)
"""Tables that earlier versions did not have: jobs in which they have their default values keep their fingerprint."""

_MIX_FIX = "give the run's first mixture as [[dataset.mix.stages]] with until_step = {}, or use another -o"

OTHER_RUN = "another output directory, or replace this run: train with --restart"
"""The end of the fix for a run directory that has another job."""

_DEFAULTS = TrainConfig()
_ELSEWHERE = ("model", "data", "validation_data", "sft", "backend", "steps", "epochs", "hooks", *UNFINGERPRINTED_KEYS)


def job_fingerprint(
    train: TrainConfig, model: dict[str, Any], steps: int, made_from: dict[str, Any], computed: dict[str, Any]
) -> str:
    """Return a hash of everything that the weights depend on: not paths, the backend, logging or what is kept.

    Args:
        train: the section.
        model: transformers' config.
        steps: the number of steps of the run.
        made_from: hashes of the inputs.
        computed: the backend options that change the result.
    """
    unused = {*_ELSEWHERE, *(key for key in _LATER_TABLES if getattr(train, key) == getattr(_DEFAULTS, key))}
    section = {key: value for key, value in plain(msgspec.structs.asdict(train)).items() if key not in unused}
    section["schedule"]["steps"] = section["schedule"].pop("total")  # its name in the first fingerprints
    if train.optimizer.kind != "muon":
        del section["optimizer"]["momentum"]  # Muon's
    for table, key, default in _LATER_KEYS:
        owner = section[table] if table else section
        if key in owner and owner[key] == default:
            del owner[key]
    if "rtd" in section:  # what the path has is hashed
        del section["rtd"]["generator_init"]
    options = {"options": computed} if computed else {}
    fields = {"format": FORMAT, "train": section, "model": model, "steps": steps, **made_from, **options}
    return fingerprint(plain(fields))


def extend_job(job: Job, before: Job, where: str) -> Job | None:
    """Return a job as the extension of one with fewer steps; None if they differ in anything else.

    Args:
        job: the new job. Its mixture may differ from that step on with which the existing run ends.
        before: the job of the existing run.
        where: the run directory, for errors.

    Raises:
        MismatchError: the new schedule or the new mixture gives steps of the existing run other learning rates or rows.
    """
    if job.steps <= before.steps or not job.made_from:
        return None
    as_before = msgspec.structs.replace(job.train, schedule=before.train.schedule)
    made_from = job.made_from | ({"mix": before.made_from["mix"]} if job.mix and before.mix else {})
    if job_fingerprint(as_before, job.model, before.steps, made_from, job.computed) != before.fingerprint:
        return None
    if job.mix and before.mix and not has_same_rows(job.mix, before.mix, before.steps):
        fix = _MIX_FIX.format(before.steps)
        raise MismatchError(_other_rows(job, before), where=where, fix=fix, options=("-o",))
    if not gives_same_rates(before.train.schedule, before.steps, job.train.schedule, job.steps):
        raise _other_rates(job, before, where)
    return msgspec.structs.replace(job, earlier=[*before.earlier, before.fingerprint])


def _other_rows(job: Job, before: Job) -> str:
    what = f"this run cannot be extended from {before.steps:,} to {job.steps:,} steps"
    return f"{what}: dataset.mix has changed, so the steps already done would have had other rows"


def _other_rates(job: Job, before: Job, where: str) -> MismatchError:
    kind, old = before.train.schedule.kind, before.train.schedule.total or before.steps
    new = job.train.schedule.total or job.steps
    what = f"this run cannot be extended from {before.steps:,} to {job.steps:,} steps"
    if _without_end(job) != _without_end(before):
        what += ": train.schedule has changed, so the steps already done would have had other learning rates"
        return MismatchError(what, where=where, fix=f"use the run's first train.schedule, {OTHER_RUN}")
    what += f": its learning rate decays ({kind}) until step {old:,}, and with these options until step {new:,}"
    return MismatchError(what, where=where, fix=_end_fix(before, where), options=("-o",))


def _without_end(job: Job) -> ScheduleConfig:
    return msgspec.structs.replace(job.train.schedule, total=0)


def _end_fix(before: Job, run: str) -> str:
    schedule, end = before.train.schedule, before.train.schedule.total or before.steps
    rate = before.train.optimizer.lr * schedule.floor
    if rate:
        return f"--set train.schedule.total={end} continues at the final rate, {rate:g}; or use another -o"
    return (
        f"use another -o; to continue from these weights: `jprep export {shlex.quote(run)}`, then set "
        f"train.model.init = {toml(f'{run}/export')} in a new run (the learning rate of this one has reached 0)"
    )
