"""`jprep init`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.output import echo, next_steps, note
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.shell_command import shell_command
from jprep.cli.common.unused_options import refuse_unused
from jprep.cli.completion.candidates import PATTERN, SEGMENTER
from jprep.cli.pipeline.starter_names import BACKENDS, MODELS, SOURCES, TASKS, TOKENIZERS
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.cli.pipeline.questions import Questions
    from jprep.pipeline.starter.choices import Answers, BackendName, StartingModel
    from jprep.pipeline.starter.finetuning import FineTuning


@click.command()
@click.argument("file", metavar="[FILE.toml]", required=False, type=OUTPUT_PATH)
@click.option("--from", "source", type=click.Choice(SOURCES), help="Where the text comes from.  [default: wikipedia]")
@click.option(
    "--input", "inputs", multiple=True, type=PATTERN, metavar="PATH",
    help="Files, patterns, directories or URLs of the text; for hf ORG/NAME. Can be repeated.",
)  # fmt: skip
@click.option("--text-field", default="", metavar="NAME", help="Field of records with the text. Default: found.")
@click.option(
    "--task", type=click.Choice(TASKS), help="Fine-tune the model of --init on rows of --input, instead of on text."
)
@click.option(
    "--validation", multiple=True, type=PATTERN, metavar="PATH",
    help="With --task: files with rows to validate on. Default: a fifth of labelled rows.",
)  # fmt: skip
@click.option("--label-field", default="", metavar="NAME", help="With --task: column of the label. Default: found.")
@click.option("--train", "backend", type=click.Choice(BACKENDS), help="What trains the model.  [default: torch]")
@click.option("--model", metavar="PRESET", type=click.Choice(MODELS), help="E.g. gpt2-small, roberta-base, llama-160m.")
@click.option(
    "--init", "init_model", metavar="DIR|NAME",
    help="A model to continue, with its tokenizer: an exported directory, or ORG/NAME on the Hub.",
)  # fmt: skip
@click.option("--tokenizer", type=click.Choice(TOKENIZERS), help="Kind of tokenizer. Default: the model's usual one.")
@click.option(
    "--segmenter",
    type=SEGMENTER,
    metavar="NAME",
    help="What finds words. Default: the first that works here, else none.",
)
@click.option(
    "--name", help="Name of the recipe and of its output directory. Default: that of the file, else the source or task."
)
@click.option("-y", "--yes", is_flag=True, help="Do not prompt; use defaults for missing options.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(file: Path | None, yes: bool, force: bool, **given: Any) -> None:
    """Write a commented recipe of your own, after a few questions on a terminal.

    Options answer questions in advance; without a terminal, or with --yes, nothing is asked.

    \b
    Example:
      jprep init
      jprep init novels.toml --from text --input 'novels/*.txt' --train torch --model gpt2-small
      jprep init medical.toml --from text --input 'texts/*.jsonl' --init Qwen/Qwen3-0.6B-Base
      jprep init reviews.toml --task classify --input train.csv --init work/jawiki/runs/torch/export
      jprep init chat.toml --task sft --input train.jsonl --validation held.jsonl --init Qwen/Qwen3-0.6B-Base
    """
    from jprep.pipeline.starter.starter_recipe import compose_recipe, refuse_existing, write_recipe

    if file:
        refuse_existing(file, force=force)
    if given["task"]:
        _write_finetuning(given, file, force=force)
        return
    refuse_unused("it is for --task", "validation", "label_field")
    asking = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    answers = _answers(given, file, asking=asking)
    path = file or Path(f"{answers.name}.toml")
    refuse_existing(path, force=force)
    write_recipe(compose_recipe(answers, path), path, force=force)
    _show(path, answers)


def _write_finetuning(given: Mapping[str, Any], file: Path | None, *, force: bool) -> None:
    """Write a recipe that fine-tunes a model, and show what it is about. Nothing is asked: options say everything."""
    from jprep.pipeline.starter.finetuning import compose_finetuning
    from jprep.pipeline.starter.starter_recipe import refuse_existing, write_recipe

    answers = _finetuning_answers(given, file)
    path = file or Path(f"{answers.name}.toml")
    refuse_existing(path, force=force)
    composed = compose_finetuning(answers, path)
    write_recipe(composed.text, path, force=force)
    echo(f"{path}: {one_line(answers.start.init)} by {answers.backend}, for {answers.task}: {composed.about}")
    for text in composed.notes:
        note(f"jprep: {text}")
    next_steps(shell_command("train", path, "--dry-run"), shell_command("run", path))


def _finetuning_answers(given: Mapping[str, Any], file: Path | None) -> FineTuning:
    """Return the answers that the options give, after checking that they fit each other."""
    from jprep.pipeline.starter.finetuning import FineTuning, check_finetuning
    from jprep.pipeline.starter.starting_model import check_starting_model, read_starting_model
    from jprep.train.planning.host import has_accelerator

    task = given["task"]
    refuse_unused(f"the recipe fine-tunes a model for {task}", "source", "model", "tokenizer", "segmenter")
    if task == "sft":
        refuse_unused("columns of conversations are detected", "text_field", "label_field")
    if given["init_model"] is None:
        raise click.UsageError(f"--task {task} needs a model to fine-tune: --init DIR|NAME")
    backend: BackendName = given["backend"] or "torch"
    check_finetuning(task, backend)
    start = read_starting_model(given["init_model"], task)
    check_starting_model(start, backend)
    return FineTuning(
        name=given["name"] or (file.stem if file else task),
        task=task,
        start=start,
        inputs=given["inputs"],
        validation=given["validation"],
        text_field=given["text_field"],
        label_field=given["label_field"],
        backend=backend,
        precision="bf16" if has_accelerator() else "fp32",
    )


def _answers(given: Mapping[str, Any], file: Path | None, *, asking: bool) -> Answers:
    """Return the answers: given by options, asked for, or defaults."""
    from jprep.cli.pipeline.questions import Questions
    from jprep.pipeline.starter import choices
    from jprep.train.planning.host import has_accelerator

    ask, start = Questions(asking), _starting_model(given)
    source = given["source"] or ask.choose("Where does the text come from?", choices.SOURCES, "wikipedia")
    inputs = given["inputs"] or ask.inputs(source)
    backends = {name: choice.about for name, choice in choices.BACKENDS.items()}
    backend = given["backend"] or ask.choose("What trains the model?", backends, "torch")
    model = _model(given, backend, start, ask)
    name = given["name"] or ask.name(file.stem if file else source)
    return choices.Answers(
        name=name,
        source=source,
        inputs=tuple(inputs),
        text_field=given["text_field"],
        backend=backend,
        segmenter=given["segmenter"] or _segmenter(start),
        precision="bf16" if has_accelerator() else "fp32",
        **model,
    )


def _starting_model(given: Mapping[str, Any]) -> StartingModel | None:
    """Return the model to continue, if one is given."""
    if given["init_model"] is None:
        return None
    if given["model"] or given["tokenizer"]:
        raise click.UsageError("--init brings its model and tokenizer: leave out --model and --tokenizer.")
    from jprep.pipeline.starter.starting_model import read_starting_model

    return read_starting_model(given["init_model"])


def _model(
    given: Mapping[str, Any], backend: BackendName, start: StartingModel | None, ask: Questions
) -> dict[str, Any]:
    """Return the answers about the model: one to continue, or a preset and a kind of tokenizer."""
    from jprep.pipeline.starter import choices

    if start:
        from jprep.pipeline.starter.starting_model import check_starting_model

        check_starting_model(start, backend)
        return {"start": start}
    model = given["model"] or ask.model(backend)
    choices.check_model(backend, model)
    usual = choices.usual_tokenizer(model)
    tokenizer = given["tokenizer"] or ask.choose("Which kind of tokenizer?", choices.TOKENIZERS, usual)
    return {"model": model, "tokenizer": tokenizer}


def _segmenter(start: StartingModel | None) -> str:
    """Return the segmenter of a given tokenizer, or else the first that works here.

    None for a causal model whose tokenizer takes raw text.
    """
    from jprep.doctor.segmenters import usable_segmenter
    from jprep.pipeline.starter.choices import FAMILIES

    if start and start.segmenter:
        return str(start.segmenter["use"])
    if start and FAMILIES[start.family].task == "clm" and not start.needs_words:
        return "none"
    found = usable_segmenter()
    if found == "none":
        note("no segmenter works on this machine, so the recipe uses none; see `jprep doctor`")
    return found


def _show(path: Path, answers: Answers) -> None:
    tokenizer = "its tokenizer" if answers.start else answers.tokenizer
    echo(f"{path}: {one_line(answers.model_name)} by {answers.backend}, {tokenizer}, from {answers.source}")
    run = ("run", path)
    next_steps(shell_command(*run, "--scale", "tiny"), shell_command(*run, "--dry-run"), shell_command(*run))
