"""Print the plan of a training, for `jprep train --dry-run`."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from jprep.cli.common.output import echo, echo_json
from jprep.cli.common.shell_command import make_runnable
from jprep.io.escaping import one_line
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.dataset.manifest import DatasetManifest, LeftOut
    from jprep.train.backend import Finding
    from jprep.train.job.config import Job, SeenSource
    from jprep.train.launcher.launch import PreparedRun
    from jprep.train.planning.cost import Cost, Price
    from jprep.train.planning.duration import Duration
    from jprep.train.planning.memory_fit import MemoryFit
    from jprep.train.planning.storage import HostMemory, StorageEstimate


_ENVIRONMENT = 3
_LABELS = 10  # that are shown
_EXAMPLE = 400  # characters


class _Estimates(NamedTuple):
    """What a run is estimated to take."""

    fit: MemoryFit
    host: HostMemory | None
    time: Duration
    cost: Cost | None
    storage: StorageEstimate
    warnings: list[str]
    shapes: list[str]


def show_plan(prepared: PreparedRun, price: Price | None = None, *, as_json: bool) -> int:
    """Print the plan of a run; return the exit code: 3 where it does not fit into memory.

    Args:
        prepared: the run.
        price: of all machines together; None leaves out the cost.
        as_json: print JSON.
    """
    backend, job = prepared.backend, prepared.job
    findings = backend.check(backend.read_options(job.options))
    found = _estimate(prepared, price)
    code = _ENVIRONMENT if found.fit.fits is False else 0
    if as_json:
        echo_json(_fields(prepared, findings, found))
        return code
    echo(f"{job.name}: {prepared.run} with {job.backend}")
    lines = _lines(prepared, found)
    width = max(11, *(len(name) + 1 for name in lines))  # names of sources and parts may be longer
    for name, line in lines.items():
        echo(one_line(f"  {name:<{width}}{line}"))
    for warning in found.warnings:
        echo(f"  {'warning':<11}{warning}")
    for note in [*found.shapes, *prepared.plan.notes]:
        echo(f"  {'note':<11}{note}")
    show_findings(findings)
    if settings := prepared.plan.settings:
        echo(f"  settings   {json.dumps(settings, indent=2)}")
    return code


def _estimate(prepared: PreparedRun, price: Price | None) -> _Estimates:
    from jprep.train.planning.cost import estimate_cost
    from jprep.train.planning.duration import duration_warnings, estimate_duration
    from jprep.train.planning.memory_fit import judge_plan
    from jprep.train.planning.published import published_warnings
    from jprep.train.planning.shapes import shape_notes
    from jprep.train.planning.storage import estimate_host_memory, estimate_storage

    job, plan, host = prepared.job, prepared.plan, prepared.host
    time, storage = estimate_duration(job, plan, host), estimate_storage(job, plan, host, prepared.run)
    memory = estimate_host_memory(job, plan, host)
    small = [one.warning for one in (storage, memory) if one and one.warning]
    return _Estimates(
        fit=judge_plan(plan, host),
        host=memory,
        time=time,
        cost=estimate_cost(price, time) if price else None,
        storage=storage,
        warnings=[*duration_warnings(job, time), *published_warnings(job), *small],
        shapes=shape_notes(job, plan, host),
    )


def show_findings(findings: list[Finding]) -> None:
    """Print the findings of a backend."""
    for finding in findings:
        echo(f"  {finding.level:<11}{finding.what}")
        if finding.fix:
            echo(f"  {'fix:':<11}{make_runnable(finding.fix)}")


def _lines(prepared: PreparedRun, found: _Estimates) -> dict[str, str]:
    from jprep.dataset.conversations.config import describe_counts
    from jprep.train.pretrained.start import describe_init

    job, plan, keep = prepared.job, prepared.plan, prepared.job.train.checkpoint
    every = [f"every {counted(keep.every_steps, 'step')}"] if keep.every_steps else []
    every += [f"every {counted(keep.every_epochs, 'epoch')}"] if keep.every_epochs else []
    every += [f"every {counted(keep.every_minutes, 'minute')}"] if keep.every_minutes else []
    kept = f"the last {keep.keep_last}" + (f" and the best {keep.keep_best}" if keep.keep_best else "")
    kept += f" by {keep.best}" if keep.keep_best and keep.best != "loss" else ""
    rows = counted(job.train.batch, "row")
    parts = counted(plan.accumulate, "micro-batch", "micro-batches")
    where = f"{counted(plan.processes, 'process', 'processes')} × {parts} of {counted(plan.micro_batch, 'row')}"
    model = job.train.model.preset or job.model["model_type"]
    given = {"init": describe_init(job, prepared.run)} if job.train.model.init else {}
    own = job.train.model.init and job.tokenizer == job.train.model.init
    return {
        "model": f"{model}, {job.parameters:,} parameters, for {job.train.task}",
        **given,
        **({"tokenizer": "that of train.model.init"} if own else {}),
        "data": _describe_data(prepared),
        **_describe_rows(job),
        **{f"  {one.name}": _share(one, job) for one in job.sources},
        **({"lengths": _describe_stages(job)} if job.train.stages else {}),
        **({"messages": describe_counts(job.chat.counts), "example": _example(prepared)} if job.chat else {}),
        **({"  in no part": left_out} if (left_out := _describe_left_out(prepared)) else {}),
        "run": f"{counted(job.steps, 'step')} of {rows}, {_epochs(job):,.2f} epochs{_before(job)}",
        "time": found.time.text,
        **({"cost": found.cost.text} if found.cost else {}),
        "batch": f"{rows} = {where}",
        "precision": job.train.precision,
        "memory": found.fit.text,
        **({"host": found.host.text} if found.host else {}),
        "checkpoint": f"{', '.join([*every, 'at the end'])}; kept: {kept}",
        "disk": found.storage.text,
        "command": shlex.join(plan.argv),
    }


def _fields(prepared: PreparedRun, findings: list[Finding], found: _Estimates) -> dict[str, Any]:
    job, plan = prepared.job, prepared.plan
    return {
        "name": job.name,
        "run": str(prepared.run),
        "backend": job.backend,
        "fingerprint": job.fingerprint,
        "model": job.model,
        "parameters": job.parameters,
        "tokens": _tokens(prepared),
        "samples": job.samples,
        "steps": job.steps,
        "epochs": _epochs(job),
        "train": job.train,
        "mix": job.mix,
        "sources": job.sources,
        "conversations": job.chat.counts if job.chat else None,
        "example": _example(prepared) if job.chat else None,
        "rows": _rows(job),
        "left_out": _left_out(prepared),
        "plan": plan,
        "fits": found.fit.fits,
        "verdict": found.fit.text,
        "seconds": found.time.seconds,
        "duration": found.time.text,
        "cost": found.cost and found.cost._asdict(),
        "disk": {"checkpoint": found.storage.checkpoint, "total": found.storage.total, "text": found.storage.text},
        "host_memory": found.host and found.host._asdict(),
        "warnings": found.warnings,
        "notes": found.shapes,
        "host": prepared.host,
        "findings": findings,
    }


def _describe_data(prepared: PreparedRun) -> str:
    """Return a line about an epoch; that of a mixture has different tokens than the training split."""
    job, tokens = prepared.job, _tokens(prepared)
    rows = f"{counted(job.samples, 'row')} of at most {_length(job):,} tokens"
    if job.mix:
        return f"{rows} in an epoch of the mixture, from {tokens:,} tokens"
    return f"{rows}, {tokens:,} tokens" if tokens else rows


def _rows(job: Job) -> dict[str, Any] | None:
    """Return the labelled rows, by label, and what is held out of them; None for other data."""
    if not job.rows:
        return None
    return {
        "train": job.rows.train,
        "labels": dict(zip(job.labels, job.rows.labels, strict=True)),
        "class_weights": dict(zip(job.labels, job.class_weights, strict=False)),
        "validation": job.rows.validation,
        "folds": job.train.labelled.folds,
        "fold": job.train.fold,
    }


def _describe_rows(job: Job) -> dict[str, str]:
    """Return lines about labelled rows: those of each label, and those to validate on."""
    if not job.rows:
        return {}
    counts = [f"{name} {count:,}" for name, count in zip(job.labels, job.rows.labels, strict=True)]
    if job.class_weights:
        counts = [f"{text} (weight {weight:.3g})" for text, weight in zip(counts, job.class_weights, strict=True)]
    more = [f"{len(counts) - _LABELS:,} more"] if len(counts) > _LABELS else []
    labels = {"labels": ", ".join(counts[:_LABELS] + more)} if counts else {}
    return labels | {"held out": f"{counted(job.rows.validation, 'row')}{_source_of_validation(job)}"}


def _source_of_validation(job: Job) -> str:
    if job.train.validation_data:
        return f", {', '.join(map(os.path.basename, job.train.validation_data))}"
    folds = job.train.labelled.folds
    return f", fold {job.train.fold} of folds 0 to {folds - 1}" if folds else ""


def _example(prepared: PreparedRun) -> str:
    """Return a conversation as it is trained on, what is learnt of it between ⟦ and ⟧."""
    from jprep.dataset.conversations.example import example_of
    from jprep.tokenizer import load_tokenizer
    from jprep.train.run.directory import job_path

    job = prepared.job
    assert job.chat
    tokenizer = load_tokenizer(job_path(prepared.run, job.tokenizer))
    paths = [job_path(prepared.run, each) for each in job.train.data]
    text = example_of(paths, job.train.sft, job.chat.template, tokenizer, job.train.length)
    return text if len(text) <= _EXAMPLE else f"{text[:_EXAMPLE]} …"


def _describe_stages(job: Job) -> str:
    """Return the lengths of rows in the stages of a training."""
    stages = job.train.stages
    parts = [f"at most {stage.length:,} tokens until step {stage.until_step:,}" for stage in stages]
    return f"{', '.join(parts)}, then {job.train.length:,}"


def _before(job: Job) -> str:
    return f"; the first {job.steps_before:,} are done" if job.steps_before else ""


def _share(source: SeenSource, job: Job) -> str:
    """Return what the run sees of a source."""
    share = source.rows / (job.steps * job.train.batch)
    return f"{share:.2%} of the rows: {source.rows:,}, {source.tokens:,} tokens, {source.epochs:,.2f} epochs"


def _length(job: Job) -> int:
    return job.train.longest


def _epochs(job: Job) -> float:
    return job.epochs(job.steps)


def _tokens(prepared: PreparedRun) -> int:
    """Return the tokens of the training split; 0 for labelled data."""
    from jprep.dataset.manifest import TRAIN

    found = _dataset(prepared)
    return sum(split.tokens for split in found.splits if split.name == TRAIN) if found else 0


def _left_out(prepared: PreparedRun) -> list[LeftOut]:
    """Return the documents that are in no part of the mixture, by source."""
    found = _dataset(prepared)
    return found.left_out if found else []


def _describe_left_out(prepared: PreparedRun) -> str:
    return ", ".join(f"{counted(each.documents, 'document')} of {each.source}" for each in _left_out(prepared))


def _dataset(prepared: PreparedRun) -> DatasetManifest | None:
    """Return the manifest of the dataset; None for labelled data."""
    from jprep.dataset.manifest import read_dataset
    from jprep.train.run.directory import job_path

    if not prepared.job.dataset:
        return None
    return read_dataset(job_path(prepared.run, prepared.job.dataset))
