"""The section about runs: all given ones laid over each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.fingerprint import plain
from jprep.errors import ConfigError
from jprep.io.inputs.paths import short_names
from jprep.report.inputs import ReportInput
from jprep.report.runs.differences import job_differences
from jprep.report.runs.history import KILLED, Moment, RunHistory, read_history
from jprep.report.runs.plots import run_plots
from jprep.report.runs.text_samples import sampled_texts
from jprep.report.section import ReportContext, Section
from jprep.train.evaluation.records import titles
from jprep.train.job.config import LABELLED_TASKS
from jprep.train.launcher.cross_validation import read_folds
from jprep.train.run.text_samples import SampledText
from jprep.train.trackers.tracker import flatten

_MESSAGES = {
    KILLED: "ended without a record: killed, or its hosts were lost",
    "start": "started",
    "restart": "worker restarted",
    "signal": "stopped by a signal",
    "damaged": "damaged checkpoint set aside",
    "rewind": "rewound by the user",
}
"""Tasks that write no text: their samples are shown where there are some, but not asked for."""
_CHECKPOINTS = 40  # of each run are listed
_DIFFERENCES = 200  # rows


def build(inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
    """Return one section with all runs; the folds of a cross-validation are runs.

    Raises:
        ConfigError: a job.json is damaged, or the options ask for samples that a run cannot give.
        MachineError: a file cannot be read, or a backend is not installed.
    """
    folders = [folder for each in inputs for folder in _runs_of(each)]
    histories = [read_history(folder) for folder in folders]
    if not histories:
        return []
    runs = list(zip(_names(histories), histories, strict=True))
    texts = [(name, sampled_texts(run, context.options.prompts)) for name, run in runs]
    has_texts = any(found for _, found in texts) or any(run.job.train.task not in LABELLED_TASKS for run in histories)
    values = {
        "summary": _summary(runs),
        "folds": list(_folds(inputs)),
        "plots": run_plots(runs),
        "evaluations": _evaluations(runs),
        "mixtures": [(name, _mixture(run)) for name, run in runs if run.job.sources],
        "moments": [(name, [_moment(each) for each in run.moments], run.interruptions) for name, run in runs],
        "checkpoints": [(name, _checkpoints(run)) for name, run in runs],
        "texts": [
            (name, run.job.train.objective == "clm", _by_prompt(samples))
            for (name, run), (_, samples) in zip(runs, texts, strict=True)
            if samples
        ],
        "has_texts": has_texts,
        "differences": _differences(runs),
        "settings": [(name, list(flatten(plain(run.job.train)))) for name, run in runs],
        "names": [name for name, _ in runs],
    }
    title = f"Run{'s' * (len(runs) > 1)} {', '.join(name for name, _ in runs)}"
    figures = {"runs": [_figures(name, run, samples) for (name, run), (_, samples) in zip(runs, texts, strict=True)]}
    highlights = _highlights(runs[0][1])
    parts = _parts(len(runs), has_texts=has_texts)
    return [Section(title, "run", "run.html", values, figures, highlights, parts, _notes(runs))]


def _runs_of(given: ReportInput) -> list[Path]:
    return [given.path] if given.kind == "run" else sorted(path.parent for path in given.path.glob("fold-*/job.json"))


def _folds(inputs: Sequence[ReportInput]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Give name, headings and rows of a table of means for each finished cross-validation."""
    for each in (each for each in inputs if each.kind == "folds"):
        with contextlib.suppress(ConfigError):
            found = read_folds(each.path)
            headings = ["Figure", "Mean", "Deviation", *(f"Fold {fold}" for fold in range(len(found.jobs)))]
            steps = (
                [["Step of the validation", "–", "–", *(f"{step:,}" for step in found.steps)]] if found.steps else []
            )
            rows = [
                [name, *map(_shown, (figure.mean, figure.deviation, *figure.each))]
                for name, figure in found.figures.items()
            ]
            yield found.name, headings, [*rows, *steps]


def _evaluations(runs: Sequence[tuple[str, RunHistory]]) -> list[list[Any]]:
    """Return the rows of a table that has the figures of several runs on the same data one below the other."""
    named = [(name, one) for name, run in runs for one in run.evaluations]
    found = [(title, name, one) for title, (name, one) in zip(titles([one for _, one in named]), named, strict=True)]
    found.sort(key=lambda each: each[0])
    return [
        [
            f"{title}{' (training rows)' * one.seen}",
            name,
            f"{one.step:,} (initial weights)" if one.initial else one.step,
            one.rows,
            "; ".join(f"{key} {_shown(value)}" for key, value in one.figures.items()),
        ]
        for title, name, one in found
    ]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _names(runs: Sequence[RunHistory]) -> list[str]:
    """Return the jobs' names, or as many parts of the folders as distinguish them."""
    names = [run.job.name for run in runs]
    paths = [str(run.folder.resolve()) for run in runs]
    short = short_names(paths)
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({short[path]})" for name, path in zip(names, paths, strict=True)]


def _parts(runs: int, *, has_texts: bool) -> list[tuple[str, str]]:
    texts = [("texts", "Samples of text")] if has_texts else []
    differences = [("differences", "Differences")] if runs > 1 else []
    last = [("history", "History"), ("settings", "Settings")]
    return [("curves", "Curves"), *texts, *differences, *last]


def _summary(runs: Sequence[tuple[str, RunHistory]]) -> dict[str, Any]:
    columns = [_facts(run) for _, run in runs]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return {"headings": ["Figure", *(name for name, _ in runs)], "rows": rows}


def _facts(run: RunHistory) -> dict[str, str]:
    job, best = run.job, next((each for each in run.checkpoints if each.best), None)
    return {
        "State": _state(run),
        "Task": job.train.task,
        "Backend": job.backend,
        "Parameters": f"{job.parameters:,}",
        "Steps": f"{run.step:,} of {job.steps:,}",
        "Epochs": f"{job.epochs(run.step):.2f}",
        "Positions seen (steps × rows × tokens of a row)": f"{_positions(run):,}",
        "Time with a worker": _duration(run.working_hours),
        "Time since the first start": _duration(run.hours),
        "Starts": f"{run.starts:,}",
        "Interruptions": f"{run.interruptions:,}",
        "Training loss": _last(run, "training"),
        "Training losses that are not finite": _undefined(run),
        "Validation loss": _last(run, "validation"),
        "Lowest validation loss": _lowest(run),
        "Best checkpoint kept": f"step {best.step:,}" if best else "–",
    }


def _positions(run: RunHistory) -> int:
    train = run.job.train
    return train.batch * sum((end - begin) * length for begin, end, length in train.lengths_until(run.step))


def _state(run: RunHistory) -> str:
    if run.finished:
        return f"finished: {run.end_note}" if run.end_note else "finished"
    if run.end_note:
        return f"failed: {run.end_note[:200]}"
    return "not finished" if run.starts else "not started"


def _last(run: RunHistory, kind: str) -> str:
    curves = run.training if kind == "training" else run.validation
    if kind == "training" and run.undefined and run.undefined[-1] >= run.step:
        return "not finite"
    return f"{curves['loss'].values[-1]:.4f}" if "loss" in curves else "–"


def _undefined(run: RunHistory) -> str:
    """Return how many logged losses are infinite or not a number: the curves leave them out."""
    return f"{len(run.undefined):,}, the first at step {run.undefined[0]:,}" if run.undefined else "none"


def _lowest(run: RunHistory) -> str:
    if "loss" not in run.validation:
        return "–"
    curve = run.validation["loss"]
    value, step = min(zip(curve.values, curve.steps, strict=True))
    return f"{value:.4f} at step {step:,.0f}"


def _duration(hours: float) -> str:
    return str(timedelta(seconds=round(3600 * hours)))


def _moment(moment: Moment) -> list[Any]:
    return [_MESSAGES.get(moment.kind, moment.kind), moment.step, _duration(moment.hours), moment.note[:300] or "–"]


def _checkpoints(run: RunHistory) -> list[list[Any]]:
    return [
        [f"{each.step:,}", "–" if each.loss is None else f"{each.loss:.4f}", "best" if each.best else "–"]
        for each in run.checkpoints[-_CHECKPOINTS:]
    ]


def _mixture(run: RunHistory) -> list[list[Any]]:
    """Return what all steps of a run see of each source or part of its mixture."""
    total = max(sum(each.rows for each in run.job.sources), 1)
    return [
        [each.name, each.rows, f"{each.rows / total:.2%}", each.tokens, f"{each.epochs:.2f}"]
        for each in run.job.sources
    ]


def _by_prompt(samples: Sequence[SampledText]) -> list[tuple[str, list[SampledText]]]:
    prompts = list(dict.fromkeys(each.prompt for each in samples))
    return [(prompt, [each for each in samples if each.prompt == prompt]) for prompt in prompts]


def _differences(runs: Sequence[tuple[str, RunHistory]]) -> list[list[str]]:
    if len(runs) < 2:
        return []
    found = job_differences([run.job for _, run in runs])
    return [[name, *(value[:200] for value in values)] for name, values in found[:_DIFFERENCES]]


def _highlights(run: RunHistory) -> dict[str, float | str]:
    found: dict[str, float | str] = {"steps": run.step, "training loss": _last(run, "training")}
    return found | ({"validation loss": _last(run, "validation")} if run.validation else {})


def _figures(name: str, run: RunHistory, samples: Sequence[SampledText]) -> dict[str, Any]:
    names = ("step", "hours", "working_hours", "starts", "interruptions", "finished", "saved", "undefined")
    curves = {"training": run.training, "validation": run.validation}
    plain_curves = {
        kind: {figure: {"steps": curve.steps, "values": curve.values} for figure, curve in found.items()}
        for kind, found in curves.items()
    }
    texts = [msgspec.to_builtins(each) for each in samples]
    sources = {"sources": msgspec.to_builtins(run.job.sources)} if run.job.sources else {}
    measured = {"evaluations": msgspec.to_builtins(run.evaluations)} if run.evaluations else {}
    head = {"name": name} | {key: getattr(run, key) for key in names}
    return head | plain_curves | {"texts": texts} | measured | sources


def _notes(runs: Sequence[tuple[str, RunHistory]]) -> list[str]:
    notes = []
    for name, run in runs:
        if (size := max((each.grouped for each in run.training.values()), default=1)) > 1:
            notes.append(f"{name}: each point of a curve is the mean of up to {size:,} logged values.")
        if len(run.checkpoints) > _CHECKPOINTS:
            notes.append(f"{name}: {_CHECKPOINTS} of {len(run.checkpoints):,} checkpoints are listed.")
    return [*notes, "Where a run was resumed from a checkpoint, the curves have the later values of repeated steps."]
