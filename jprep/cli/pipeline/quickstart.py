"""`jprep quickstart`."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.output import echo, next_steps
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.shell_command import make_runnable, shell_command

if TYPE_CHECKING:
    from jprep.cli.pipeline.run import Order
    from jprep.corpus.api import Corpus
    from jprep.corpus.config import Recipe

_BACKEND = "torch"
_ASKED = 3  # documents whose titles the model continues
_TOKENS = 40
_FIGURES = ("characters_per_token", "lossless_rate", "boundary_recall")
_SENTENCES = 2  # of the first document, that are shown


@click.command()
@click.option("-o", "--output", type=OUTPUT_PATH, default=Path("work/quickstart"), show_default=True)
def quickstart(output: Path) -> int:
    """Do everything on the embedded sample: corpus, tokenizer, dataset, a tiny model; show a little of each."""
    limit_blas_threads()
    from jprep.cli.pipeline.run import Order, do
    from jprep.corpus.api import Corpus
    from jprep.engine.output_directory import OutputDirectory
    from jprep.engine.output_kinds import RECIPE
    from jprep.pipeline.output_paths import OutputPaths
    from jprep.pipeline.steps import STEPS

    OutputDirectory(output, RECIPE, files=("inputs/*",)).check()
    usual = OutputPaths(*(output / each for each in OutputPaths._fields))
    order = Order(_recipe(output / "inputs"), list(STEPS), usual, usual.runs / _BACKEND, _BACKEND, None, False)
    do(order, "corpus")
    corpus = Corpus(usual.corpus)
    _show_corpus(corpus)
    do(order, "tokenizer")
    _show_tokenizer(corpus, usual.tokenizer)
    do(order, "dataset")
    code = _model(order, corpus)
    if not code:
        _say_what_next(order, corpus)
    return code


def _say_what_next(order: Order, corpus: Corpus) -> None:
    export, first = order.run / "export", next(iter(corpus))
    asking = [shell_command("infer", export, first.title)] if export.exists() else []
    looking = (
        shell_command("corpus", "stats", corpus.folder),
        shell_command("corpus", "why", corpus.folder, first.title),
    )
    next_steps(*asking, *looking, shell_command("recipes"))


def _recipe(inputs: Path) -> Recipe:
    """The sample's recipe, its inputs written to a folder."""
    from jprep.pipeline.recipe import load_recipe
    from jprep.samples import CRAWL, DUMP, write_sample

    paths = [json.dumps([glob.escape(str(inputs / name))], ensure_ascii=False) for name in (DUMP, CRAWL)]
    return load_recipe(write_sample(inputs), [f"corpus.sources.{n}.paths={path}" for n, path in enumerate(paths)])


def _show_corpus(corpus: Corpus) -> None:
    """Show its figures, and the first sentences of its first document as text and as words."""
    from jprep.cli.corpus.stats import table
    from jprep.corpus.document import SENTENCE, WORD

    table("corpus", corpus.manifest.totals | {"rejected": sum(corpus.manifest.rejects.values())})
    first = next(iter(corpus))
    sentences = [each for each in first.words.replace("\n", SENTENCE).split(SENTENCE) if each][:_SENTENCES]
    echo(f"\nthe beginning of {first.title}, and its words:")
    for sentence in sentences:
        echo(f"  {sentence.replace(WORD, '').strip()}\n  {' '.join(sentence.replace(WORD, ' ').split())}")
    echo()


def _show_tokenizer(corpus: Corpus, folder: Path) -> None:
    """Show its chief figures, and a sentence's tokens."""
    from jprep import load_tokenizer
    from jprep.cli.corpus.stats import table
    from jprep.tokenizer.card import read_card

    figures = read_card(folder).figures
    table("tokenizer", {name: figures[name] for name in _FIGURES if name in figures})
    tokenizer = load_tokenizer(folder)
    sentence = next(iter(corpus)).text.partition("。")[0] + "。"
    echo(f"\n  {' | '.join(tokenizer.piece_of(each) for each in tokenizer.encode(sentence))}\n")


def _model(order: Order, corpus: Corpus) -> int:
    """Train, export and ask a model, where a backend is installed; else say how to get one."""
    from jprep.cli.pipeline.run import do
    from jprep.errors import JprepError
    from jprep.train.launcher.environments import worker_python
    from jprep.train.launcher.launch import load_backend

    try:
        worker_python(load_backend(_BACKEND))
    except JprepError as error:
        echo(f"\nno model is trained: {error.what}\n  fix:   {make_runnable(error.fix)}")
        return 0
    if code := do(order, "train") or do(order, "export"):
        return code
    _show_model(order, corpus)
    return 0


def _show_model(order: Order, corpus: Corpus) -> None:
    """How the loss fell, and how the model continues titles that it was trained on."""
    from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline
    from jprep.train.run.events import metric_curve, read_events

    steps, losses = metric_curve(read_events(order.run))
    echo(f"\nthe training loss fell from {losses[0]:.2f} at step {steps[0]} to {losses[-1]:.2f} at step {steps[-1]}.")
    echo(
        f"{len(corpus)} documents are too few to learn Japanese: the model knows them by heart. It continues titles:\n"
    )
    export = order.run / "export"
    with InferencePipeline(export, _BACKEND) as model:
        for title in _titles(order, corpus):
            reply = model.predict(title, GenerationConfig(tokens=_TOKENS))
            echo(f"  {title} → {''.join((reply.continuation or '').splitlines()[:1])}{reply.error}")


def _titles(order: Order, corpus: Corpus) -> list[str]:
    """The titles of documents that begin with them, of those that it was trained on."""
    from jprep.dataset.manifest import TRAIN, dataset_config
    from jprep.dataset.preprocessing.validation_split import ValidationSplit

    share = dataset_config(order.recipe.dataset, "[dataset]").validation
    splitting = ValidationSplit.of_corpus(share, corpus.manifest)
    trained = (each for each in corpus if splitting.split_of(each) == TRAIN)
    return [each.title for each in trained if each.title and each.text.startswith(each.title)][:_ASKED]
