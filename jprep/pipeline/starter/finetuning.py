"""Starter recipes that fine-tune a finished model: on labelled rows, or on conversations."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from jprep.errors import ConfigError
from jprep.io.escaping import one_line
from jprep.pipeline.init_tokenizer import tokenizer_beside
from jprep.pipeline.output_paths import WORK
from jprep.pipeline.starter.choices import BACKENDS, FAMILIES, BackendName, StartingModel
from jprep.pipeline.starter.rows import (
    FineTuningTask,
    RowSummary,
    check_validation,
    look_at_conversations,
    look_at_labelled,
)
from jprep.pipeline.starter.starter_recipe import check_name, check_text, recipe_head
from jprep.pipeline.starter.toml_lines import Key, table
from jprep.pipeline.starter.train_tables import BATCH, PRECISIONS, SCHEDULE, backend_table
from jprep.tokenizer import load_tokenizer

_FOLDS = 5
_UNIT, _LONGEST_ROW = 32, 512  # tokens: rows of labels have a multiple of the first, at most the second
_SHORTEST_CHAT, _LONGEST_CHAT = 512, 4096  # tokens in a row of conversations
_MOST = 0.99  # share of the rows that are not to be cut
_LEAST_STEPS = 20  # in a pass over conversations, if there are enough
_LARGE_DEVIATION = 10.0  # of scores
_SHOWN, _LONGEST_LABEL = 10, 20  # labels in a comment, and their characters

_RATES: dict[str, tuple[tuple[float, float], ...]] = {
    "reads": ((256, 5e-4), (512, 1e-4), (768, 3e-5), (math.inf, 1e-5)),
    "writes": ((256, 5e-4), (768, 5e-5), (2048, 2e-5), (math.inf, 1e-5)),
}
"""Learning rates by the largest width of a layer, of models that read a whole text and of those that write one."""

_ABOUT: dict[FineTuningTask, str] = {
    "classify": "find the label of a text",
    "regress": "find the score of a text",
    "sft": "learn the assistant's answers in conversations",
}
_COLUMNS = {
    "text": "column of the text",
    "pair": "column of the second text",
    "label": "column of the label or score",
    "encoding": "of the files",
    "messages": "column of the messages",
    "prompt": "column of the user's text",
    "context": "column of more of the user's text",
    "answer": "column of the assistant's text",
    "system": "column of the system's text",
}


class FineTuning(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe that fine-tunes a model is written for.

    Attributes:
        name: name of the recipe, and of its directory of outputs.
        task: the task.
        start: the model.
        inputs: files or patterns with the rows to train on.
        validation: those to validate on; without them, a part of labelled rows is held out.
        text_field, label_field: columns of labelled rows; "" finds them.
        backend: what trains.
        precision: the precision of the computation.
    """

    name: str
    task: FineTuningTask
    start: StartingModel
    inputs: tuple[str, ...]
    validation: tuple[str, ...] = ()
    text_field: str = ""
    label_field: str = ""
    backend: BackendName = "torch"
    precision: Literal["bf16", "fp32"] = "bf16"


class TaskSettings(NamedTuple):
    """The settings of a task that follow from its rows.

    Attributes:
        keys: further keys of `[train]`.
        batch, epochs, steps: how much is trained.
        optimizer, schedule, best: values of these keys.
        table: the table with the columns; "" if it is not needed.
        validates: whether there are rows to validate on.
        cut: share of the rows that are cut.
    """

    keys: list[Key]
    batch: int
    epochs: int
    steps: int
    optimizer: dict[str, float]
    schedule: str
    best: dict[str, str]
    table: str
    validates: bool
    cut: float


class Composed(NamedTuple):
    """A recipe.

    Attributes:
        text: its text.
        about: a line about the rows.
        notes: what the user should know.
    """

    text: str
    about: str
    notes: list[str]


def check_finetuning(task: FineTuningTask, backend: BackendName) -> None:
    """Refuse a backend that does not fine-tune for a task.

    Raises:
        ConfigError: it does not.
    """
    if backend == "fairseq-xla" and task != "sft":
        able = ", ".join(name for name in BACKENDS if name != backend)
        raise ConfigError(f"{backend} does not {task}", where=f"--train {backend}", fix=f"--train with one of {able}")


def compose_finetuning(answers: FineTuning, file: Path) -> Composed:
    """Return a recipe for the answers; it is loaded to check it.

    Args:
        answers: what it is for.
        file: its file, which the commands in its comments name.

    Raises:
        ConfigError: an answer is wrong, no input matches, or no column can be the text or the label.
        InputError: a row that cannot be used.
        MachineError: a library is not installed, or an input cannot be read.
    """
    check_name(answers.name)
    check_finetuning(answers.task, answers.backend)
    if not answers.inputs:
        what = f"the task {answers.task} needs files with rows"
        raise ConfigError(what, where="--input", fix="--input train.jsonl")
    found = _look(answers)
    held = check_validation(answers.validation, answers.task, found) if answers.validation else ()
    make = _chat_settings if answers.task == "sft" else _labelled_settings
    settings = make(answers, found, held=bool(held))
    tables = (
        _head(answers, file, found, settings),
        _train_table(answers, found, held, settings),
        settings.table,
        backend_table(answers.backend),
    )
    text = "\n".join(filter(None, tables))
    check_text(text)
    return Composed(text, _about(found, settings), list(_notes(answers, found, settings)))


def _look(answers: FineTuning) -> RowSummary:
    folder = tokenizer_beside(answers.start.init)
    assert folder  # `read_starting_model` has found it
    tokenizer = load_tokenizer(folder)
    if answers.task == "sft":
        return look_at_conversations(answers.inputs, tokenizer, answers.start.positions)
    return look_at_labelled(answers.inputs, answers.task, tokenizer, answers.text_field, answers.label_field)


def _labelled_settings(answers: FineTuning, found: RowSummary, *, held: bool) -> TaskSettings:
    if found.rows < 2 and not held:
        raise ConfigError("there is one row only", where=found.paths[0], fix="give more rows, or --validation FILE")
    folds = min(_FOLDS, found.rows)
    rows = found.rows if held else found.rows * (folds - 1) // folds
    epochs = 3 if rows >= 4_000 else 5 if rows >= 800 else 10
    batch = 32 if rows >= 800 else 16
    wanted = _UNIT * math.ceil(_longest(found) / _UNIT)
    length = min(answers.start.positions, _LONGEST_ROW, wanted)
    keys = _column_keys(found)
    keys.append(Key("length", length, f"tokens in a row; {_cut(found, length)}"))
    if not held:
        stratify = "label" if answers.task == "classify" else "quantiles"
        keys.append(Key("folds", folds, "parts of the rows, of which `train.fold` is held out to validate on"))
        keys.append(Key("stratify", stratify, "how the parts get equal shares"))
    return TaskSettings(
        keys=[] if held else [Key("fold", 0, "the part of the rows that is held out; without this line, each in turn")],
        batch=batch,
        epochs=epochs,
        steps=math.ceil(max(1, rows) * epochs / batch),
        optimizer={"lr": _rate(answers), "weight_decay": 0.01, "clip": 1.0},
        schedule="linear",
        best={"best": "macro_f1"} if answers.task == "classify" else {},
        table=table("[train.labelled]", keys, "How a row becomes an example.", _labels(answers, found)),
        validates=True,
        cut=found.share_above(length),
    )


def _chat_settings(answers: FineTuning, found: RowSummary, *, held: bool) -> TaskSettings:
    wanted = 1 << (_longest(found) - 1).bit_length()
    length = min(answers.start.positions, max(_SHORTEST_CHAT, min(_LONGEST_CHAT, wanted)))
    tokens = found.rows * float(np.minimum(found.sizes, length).mean())
    rows, epochs = max(1, math.ceil(tokens / length)), 3
    batch = min(64, max(4, 1 << max(1, rows // _LEAST_STEPS).bit_length() - 1))
    keys = _column_keys(found)
    return TaskSettings(
        keys=[Key("length", length, f"tokens in a row; {_cut(found, length)}")],
        batch=batch,
        epochs=epochs,
        steps=math.ceil(rows * epochs / batch),
        optimizer={"lr": _rate(answers), "weight_decay": 0.0, "clip": 1.0},
        schedule="cosine",
        best={},
        table=table("[train.sft]", keys, "How a row becomes a conversation.") if keys else "",
        validates=held,
        cut=found.share_above(length),
    )


def _column_keys(found: RowSummary) -> list[Key]:
    return [Key(name, value, _COLUMNS[name]) for name, value in found.columns.items()]


def _longest(found: RowSummary) -> int:
    """Return the tokens that nearly all rows have at most."""
    return max(2, int(np.quantile(found.sizes, _MOST))) if len(found.sizes) else 2


def _cut(found: RowSummary, length: int) -> str:
    share = found.share_above(length)
    return f"{share:.1%} of the rows are longer and are cut" if share else "no row is longer"


def _rate(answers: FineTuning) -> float:
    """Return the highest learning rate: small models need a larger one."""
    writes = answers.task == "sft" or FAMILIES[answers.start.family].task == "clm"
    rates = _RATES["writes" if writes else "reads"]
    return next(rate for width, rate in rates if answers.start.width <= width)


def _labels(answers: FineTuning, found: RowSummary) -> str:
    """Return a comment about the labels or scores."""
    if answers.task == "regress":
        mean, deviation = _moments(found)
        return f"Scores have the mean {mean:.4g} and the standard deviation {deviation:.4g}."
    shown = found.labels.most_common(_SHOWN)
    names = ", ".join(f"{one_line(str(name))[:_LONGEST_LABEL]} ({count:,})" for name, count in shown)
    return f"{len(found.labels):,} labels: {names}{', …' * (len(found.labels) > _SHOWN)}"


def _moments(found: RowSummary) -> tuple[float, float]:
    """Return mean and standard deviation of scores."""
    scores, counts = np.array([*found.labels], float), np.array([*found.labels.values()], float)
    mean = float(np.average(scores, weights=counts))
    return mean, float(np.sqrt(np.average((scores - mean) ** 2, weights=counts)))


def _head(answers: FineTuning, file: Path, found: RowSummary, settings: TaskSettings) -> str:
    path, model = one_line(shlex.quote(str(file))), one_line(answers.start.init)
    run = one_line(shlex.quote(f"{WORK}/{answers.name}/runs/{answers.backend}"))
    test = "test.jsonl" if answers.task == "sft" else f"test{Path(found.paths[0]).suffix}"
    best = f"  jprep export {run} --which best    # the best checkpoint; `jprep run` exports the last one"
    above = (
        f"Fine-tuning of {model} by {answers.backend}: {_ABOUT[answers.task]}. {found.rows:,} rows.",
        "",
        f"  jprep train {path} --dry-run    # the plan",
        f"  jprep run {path}                # train and export; interrupt at any time, rerun to resume",
        *([best] if settings.validates else []),
        f"  jprep evaluate {run} --data {test}    # figures on rows of your own",
    )
    return recipe_head(answers.name, answers.backend, f"fine-tuning of {model} for {answers.task}", *above)


def _train_table(answers: FineTuning, found: RowSummary, held: tuple[str, ...], settings: TaskSettings) -> str:
    """Return `[train]`."""
    checkpoint: dict[str, Any] = {"every_steps": 0, "every_epochs": 1, "keep_last": 1}
    checkpoint |= {"keep_best": 1, **settings.best} if settings.validates else {}
    schedule = {"kind": settings.schedule, "warmup": max(1, settings.steps // 10)}
    keys = [
        Key("task", answers.task, _ABOUT[answers.task]),
        Key("model", {"init": answers.start.init}, "the model to fine-tune; its tokenizer is used"),
        Key("data", list(found.paths), "files with the rows to train on"),
        *([Key("validation_data", list(held), "files with the rows to validate on")] if held else []),
        *settings.keys,
        Key("batch", settings.batch, BATCH),
        Key("epochs", settings.epochs, f"passes over the data, about {settings.steps:,} steps"),
        Key("precision", answers.precision, PRECISIONS[answers.precision]),
        Key("optimizer", settings.optimizer, "AdamW; lr is the highest learning rate, for a model of this size"),
        Key("schedule", schedule, SCHEDULE),
        *([Key("validation", {"every_epochs": 1}, "how often the figures are measured")] if settings.validates else []),
        Key("checkpoint", checkpoint, "saved after each pass, and on Ctrl-C"),
        Key("seed", 1, "of new weights and of the order of rows: the same seed gives the same model"),
    ]
    return table("[train]", keys, "The model, and how it is trained.")


def _about(found: RowSummary, settings: TaskSettings) -> str:
    columns = ", ".join(f"{name} {one_line(repr(value))}" for name, value in found.columns.items())
    return f"{found.rows:,} rows{f' with {columns}' if columns else ''}; about {settings.steps:,} steps"


def _notes(answers: FineTuning, found: RowSummary, settings: TaskSettings) -> Iterator[str]:
    """Yield what the user should know about the rows."""
    if settings.cut > 2 * (1 - _MOST):
        yield f"{settings.cut:.0%} of the rows are longer than the recipe's length, and are cut"
    if answers.task == "regress":
        mean, deviation = _moments(found)
        if abs(mean) > _LARGE_DEVIATION or deviation > _LARGE_DEVIATION:
            about = f"the mean {mean:.4g} and the deviation {deviation:.4g}"
            yield f"scores with {about} are slow to learn: scale them down"
