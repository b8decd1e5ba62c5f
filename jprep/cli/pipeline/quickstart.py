"""`jprep quickstart`."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.output import echo, next_steps, table
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.shell_command import make_runnable, shell_command

if TYPE_CHECKING:
    from jprep.corpus.api import Corpus
    from jprep.pipeline.recipe import Recipe
    from jprep.pipeline.run import RunPlan, RunReporter

_BACKEND = "torch"
_PROMPTS = 3  # titles that the model continues
_TOKENS = 40
_FIGURES = ("characters_per_token", "lossless_rate", "boundary_recall")
_SENTENCES = 2  # of the first document, to show


@click.command()
@click.option("-o", "--output", type=OUTPUT_PATH, default=Path("work/quickstart"), show_default=True)
def quickstart(output: Path) -> int:
    """Run every step on the embedded sample: corpus, tokenizer, dataset, a tiny model; show a part of each result.

    \b
    Example:
      jprep quickstart -o work/quickstart
    """
    limit_blas_threads()
    from jprep.cli.pipeline.terminal_reporter import TerminalReporter
    from jprep.corpus.api import Corpus
    from jprep.engine.output_directory import OutputDirectory
    from jprep.engine.output_kinds import RECIPE
    from jprep.pipeline.output_paths import paths_in
    from jprep.pipeline.run import RunPlan, run_step
    from jprep.pipeline.steps import STEPS

    OutputDirectory(output, RECIPE, files=("inputs/*",)).check()
    paths, reporter = paths_in(output), TerminalReporter()
    plan = RunPlan(_recipe(output / "inputs"), list(STEPS), paths, paths.runs / _BACKEND, _BACKEND)
    run_step(plan, "corpus", reporter)
    corpus = Corpus(paths.corpus)
    _show_corpus(corpus)
    run_step(plan, "tokenizer", reporter)
    _show_tokenizer(corpus, paths.tokenizer)
    run_step(plan, "dataset", reporter)
    code = _model(plan, corpus, reporter)
    if not code:
        _show_next(plan, corpus)
    return code


def _show_next(plan: RunPlan, corpus: Corpus) -> None:
    export, first = plan.output("export"), next(iter(corpus))
    infer = [shell_command("infer", export, first.title)] if export.exists() else []
    why = shell_command("corpus", "why", corpus.folder, first.title)
    next_steps(*infer, shell_command("corpus", "stats", corpus.folder), why, shell_command("recipes"))


def _recipe(inputs: Path) -> Recipe:
    """Write the sample's inputs to a directory; return the sample's recipe."""
    from jprep.pipeline.recipe import load_recipe
    from jprep.samples import CRAWL, DUMP, write_sample

    paths = {f"corpus.sources.{n}.paths": [glob.escape(str(inputs / name))] for n, name in enumerate((DUMP, CRAWL))}
    return load_recipe(write_sample(inputs), paths)


def _show_corpus(corpus: Corpus) -> None:
    """Show the corpus's totals, and the first sentences of its first document as text and as words."""
    from jprep.corpus.document import SENTENCE, WORD

    table("corpus", corpus.manifest.totals | {"rejected": sum(corpus.manifest.rejects.values())})
    first = next(iter(corpus))
    sentences = [each for each in first.words.replace("\n", SENTENCE).split(SENTENCE) if each][:_SENTENCES]
    echo(f"\nthe first sentences of {first.title}, as text and as words:")
    for sentence in sentences:
        echo(f"  {sentence.replace(WORD, '').strip()}\n  {' '.join(sentence.replace(WORD, ' ').split())}")
    echo()


def _show_tokenizer(corpus: Corpus, folder: Path) -> None:
    """Show the tokenizer's main figures, and the tokens of a sentence."""
    from jprep import load_tokenizer
    from jprep.tokenizer.card import read_card

    figures = read_card(folder).figures
    table("tokenizer", {name: figures[name] for name in _FIGURES if name in figures})
    tokenizer = load_tokenizer(folder)
    sentence = next(iter(corpus)).text.partition("。")[0] + "。"
    echo(f"\n  {' | '.join(tokenizer.piece_of(each) for each in tokenizer.encode(sentence))}\n")


def _model(plan: RunPlan, corpus: Corpus, reporter: RunReporter) -> int:
    """Train, export and run a model where the backend is installed; else print how to install it."""
    from jprep.errors import JprepError
    from jprep.pipeline.run import run_step
    from jprep.train.backend_loading import load_backend
    from jprep.train.launcher.environments import worker_python

    try:
        worker_python(load_backend(_BACKEND))
    except JprepError as error:
        echo(f"\nno model is trained: {error.what}\n  fix:   {make_runnable(error.fix)}")
        return 0
    if code := run_step(plan, "train", reporter) or run_step(plan, "export", reporter):
        return code
    _show_model(plan, corpus)
    return 0


def _show_model(plan: RunPlan, corpus: Corpus) -> None:
    """Show how the loss fell, and how the model continues titles that it was trained on."""
    from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline
    from jprep.train.run.events import metric_curve, read_events

    steps, losses = metric_curve(read_events(plan.run))
    echo(f"\nthe training loss fell from {losses[0]:.2f} at step {steps[0]} to {losses[-1]:.2f} at step {steps[-1]}.")
    echo(f"{len(corpus)} documents are too few to learn Japanese: the model has memorized them. It continues titles:\n")
    with InferencePipeline(plan.output("export"), _BACKEND) as model:
        for title in _titles(plan, corpus):
            prediction = model.predict(title, GenerationConfig(tokens=_TOKENS))
            echo(f"  {title} → {''.join((prediction.continuation or '').splitlines()[:1])}{prediction.error}")


def _titles(plan: RunPlan, corpus: Corpus) -> list[str]:
    """Return titles of training documents that begin with their titles."""
    from jprep.dataset.manifest import TRAIN, DatasetConfig
    from jprep.dataset.preprocessing.split_assignment import SplitAssignment

    config = plan.recipe.dataset or DatasetConfig()
    splitting = SplitAssignment.of_corpus(config.validation, config.test, corpus.manifest)
    trained = (each for each in corpus if splitting.split_of(each) == TRAIN)
    return [each.title for each in trained if each.title and each.text.startswith(each.title)][:_PROMPTS]
