"""Starter recipes that fine-tune a finished model: on labelled rows, or on conversations."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any, Literal

import msgspec

from jprep.corpus.config import VERSION
from jprep.errors import ConfigError
from jprep.io.escaping import one_line
from jprep.pipeline.init_tokenizer import tokenizer_beside
from jprep.pipeline.output_paths import WORK
from jprep.pipeline.starter.choices import BACKENDS, FAMILIES, BackendName, StartingModel
from jprep.pipeline.starter.rows import FineTuningTask, RowSummary, look_at_conversations, look_at_labelled
from jprep.pipeline.starter.starter_recipe import check_name, check_text
from jprep.pipeline.starter.toml_lines import Key, table
from jprep.pipeline.starter.train_tables import PRECISIONS, backend_table
from jprep.tokenizer import load_tokenizer

_FOLDS = 5
_UNIT = 32  # rows of labelled data have a multiple of so many tokens
_SHORTEST_CHAT, _LONGEST_CHAT = 512, 8192  # tokens in a row of conversations
_LEAST_STEPS = 20  # in a pass over conversations, if there are enough
_RATES = {"clm": 1e-5, "mlm": 3e-5, "rtd": 5e-5}
"""Learning rates for labelled rows, by the task that the model was trained for."""

_FOLD = "the part of the rows that is held out; without this line, each in turn"

_ABOUT: dict[FineTuningTask, str] = {
    "classify": "find the label of a text",
    "regress": "find the score of a text",
    "sft": "learn the assistant's answers in conversations",
}


class FineTuning(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe that fine-tunes a model is written for.

    Attributes:
        name: name of the recipe, and of its directory of outputs.
        task: the task.
        start: the model.
        inputs: files or patterns with the rows to train on.
        validation: those to validate on; without them, a fold of labelled rows is held out.
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


def compose_finetuning(answers: FineTuning, file: Path) -> str:
    """Return the text of a recipe for the answers; it is loaded to check it.

    Args:
        answers: what it is for.
        file: its file, which the commands in its comments name.

    Raises:
        ConfigError: an answer is wrong, no input matches, or no column can be the text or the label.
        InputError: a row that cannot be used.
        MachineError: a library is not installed, or an input cannot be read.
    """
    check_name(answers.name)
    if not answers.inputs:
        what = f"the task {answers.task} needs files with rows"
        raise ConfigError(what, where="--input", fix="--input train.jsonl")
    found = _look(answers, answers.inputs)
    held = _look(answers, answers.validation) if answers.validation else None
    tables = [_head(answers, file, found), _train_table(answers, found, held), _columns_table(answers, found, held)]
    text = "\n".join(filter(None, [*tables, backend_table(answers.backend)]))
    check_text(text)
    return text


def _look(answers: FineTuning, patterns: tuple[str, ...]) -> RowSummary:
    folder = tokenizer_beside(answers.start.init)
    assert folder  # `read_starting_model` has found it
    tokenizer = load_tokenizer(folder)
    if answers.task == "sft":
        return look_at_conversations(patterns, tokenizer, answers.start.positions)
    return look_at_labelled(patterns, answers.task, tokenizer, answers.text_field, answers.label_field)


def _head(answers: FineTuning, file: Path, found: RowSummary) -> str:
    """Return the comments at the head, and the keys of the recipe as a whole."""
    path, model = one_line(shlex.quote(str(file))), one_line(answers.start.init)
    run = one_line(shlex.quote(f"{WORK}/{answers.name}/runs/{answers.backend}"))
    test = "test.jsonl" if answers.task == "sft" else f"test{Path(found.paths[0]).suffix}"
    above = (
        f"Fine-tuning of {model} by {answers.backend}: {_ABOUT[answers.task]}. {found.rows:,} rows.",
        "",
        f"  jprep train {path} --dry-run    # the plan",
        f"  jprep run {path}                # train and export; interrupt at any time, rerun to resume",
        f"  jprep evaluate {run} --data {test}    # figures on rows of your own",
        f"  jprep backends install {answers.backend}    # once: {BACKENDS[answers.backend].about}",
        "",
        f"Outputs are written to {WORK}/{answers.name}/. docs/recipes.md lists all keys.",
    )
    keys = [
        Key("version", VERSION, "of the format: a recipe keeps its meaning when defaults change"),
        Key("name", answers.name, f"names the directory of the outputs below {WORK}/"),
        Key("description", f"fine-tuning of {model} for {answers.task}", "one line for readers"),
    ]
    return table("", keys, *above).replace("# \n", "#\n")


def _train_table(answers: FineTuning, found: RowSummary, held: RowSummary | None) -> str:
    """Return `[train]`."""
    epochs = _epochs(answers, found)
    batch, steps = _batch_and_steps(answers, found, held, epochs)
    validates = held is not None or answers.task != "sft"
    rate = 2e-5 if answers.task == "sft" else _RATES[FAMILIES[answers.start.family].task]
    schedule = {"kind": "cosine" if answers.task == "sft" else "linear", "warmup": max(1, steps // 10)}
    keys = [
        Key("task", answers.task, _ABOUT[answers.task]),
        Key("model", {"init": answers.start.init}, "the model to fine-tune; its tokenizer is used"),
        Key("data", list(found.paths), "files with the rows to train on"),
        *([Key("validation_data", list(held.paths), "files with the rows to validate on")] if held else []),
        *([] if held or answers.task == "sft" else [Key("fold", 0, _FOLD)]),
        *([Key("length", _chat_length(answers, found), "tokens in a row")] if answers.task == "sft" else []),
        Key("batch", batch, "rows in a step, on all devices together; the result does not depend on their number"),
        Key("epochs", epochs, f"passes over the data, about {steps:,} steps"),
        Key("precision", answers.precision, PRECISIONS[answers.precision]),
        Key("optimizer", _optimizer(answers, rate), "AdamW; lr is the highest learning rate"),
        Key("schedule", schedule, "the rate rises for `warmup` steps, and then falls"),
        *([Key("validation", {"every_epochs": 1}, "how often the figures are measured")] if validates else []),
        Key("checkpoint", _checkpoint(answers, validates=validates), "saved after each pass, and on Ctrl-C"),
        Key("seed", 1, "of new weights and of the order of rows: the same seed gives the same model"),
    ]
    return table("[train]", keys, "The model, and how it is trained.")


def _epochs(answers: FineTuning, found: RowSummary) -> int:
    if answers.task == "sft":
        return 3
    return 3 if found.rows >= 5_000 else 5 if found.rows >= 1_000 else 10


def _batch_and_steps(answers: FineTuning, found: RowSummary, held: RowSummary | None, epochs: int) -> tuple[int, int]:
    """Return the rows in a step, and the number of steps, about."""
    if answers.task == "sft":
        rows = max(1, math.ceil(found.rows * found.mean / _chat_length(answers, found)))
        batch = min(64, max(4, 1 << (max(1, rows // _LEAST_STEPS)).bit_length() - 1))
    else:
        rows = max(1, found.rows if held else found.rows * (_FOLDS - 1) // _FOLDS)
        batch = 32 if rows >= 1_000 else 16
    return batch, math.ceil(rows * epochs / batch)


def _chat_length(answers: FineTuning, found: RowSummary) -> int:
    """Return the tokens in a row that holds nearly every conversation: a power of two, if the model has so many."""
    wanted = 1 << (found.tokens - 1).bit_length()
    return min(answers.start.positions, max(_SHORTEST_CHAT, min(_LONGEST_CHAT, wanted)))


def _optimizer(answers: FineTuning, rate: float) -> dict[str, float]:
    return {"lr": rate, "weight_decay": 0.0 if answers.task == "sft" else 0.01, "clip": 1.0}


def _checkpoint(answers: FineTuning, *, validates: bool) -> dict[str, Any]:
    best = {"best": "macro_f1"} if answers.task == "classify" else {}
    return {"every_steps": 0, "every_epochs": 1, "keep_last": 1} | ({"keep_best": 1} | best if validates else {})


def _columns_table(answers: FineTuning, found: RowSummary, held: RowSummary | None) -> str:
    """Return `[train.labelled]` or `[train.sft]`; "" where nothing differs from the defaults."""
    about = {
        "text": "column of the text",
        "pair": "column of the second text",
        "label": "column of the label" if answers.task == "classify" else "column of the score",
        "encoding": "of the files",
        "messages": "column of the messages",
        "prompt": "column of the user's text",
        "context": "column of more of the user's text",
        "answer": "column of the assistant's text",
        "system": "column of the system's text",
    }
    keys = [Key(name, value, about[name]) for name, value in found.columns.items()]
    if answers.task == "sft":
        return table("[train.sft]", keys, "How a row becomes a conversation.") if keys else ""
    longest = min(answers.start.positions, _UNIT * math.ceil(found.tokens / _UNIT))
    keys.append(Key("length", longest, "tokens in a row, which 99 % of the rows need at most; longer ones are cut"))
    if not held:
        stratify = "label" if answers.task == "classify" else "quantiles"
        keys.append(Key("folds", _FOLDS, "parts of the rows, of which `train.fold` is held out to validate on"))
        keys.append(Key("stratify", stratify, "how the parts get equal shares"))
    labels = "".join(f"{one_line(name)} {count:,}, " for name, count in list(found.labels.items())[:10])
    above = ["How a row becomes an example.", *([f"Labels: {labels.removesuffix(', ')}"] if labels else [])]
    return table("[train.labelled]", keys, *above)
