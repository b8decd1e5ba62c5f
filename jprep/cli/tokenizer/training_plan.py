"""Show what a training of a tokenizer would do, for `--dry-run`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.cli.common.execution import describe_executor
from jprep.cli.common.output import describe_files, echo
from jprep.io.escaping import one_line
from jprep.plurals import and_more, counted

if TYPE_CHECKING:
    from jprep.corpus.api import Corpus
    from jprep.corpus.config import CorpusConfig
    from jprep.pipeline.recipe import Recipe
    from jprep.tokenizer.config import TokenizerConfig
    from jprep.tokenizer.training_data import TrainingData

_SHOWN = 8  # special tokens


def show_plan(data: TrainingData, recipe: Recipe, folder: Path, workers: int | None, executor: str | None) -> None:
    """Print what would be counted and learnt, and the scripts of a batch scheduler.

    Args:
        data: the training data.
        recipe: the recipe.
        folder: the output directory.
        workers: number of processes; None for the number of cores.
        executor: the executor's name; None for the recipe's.

    Raises:
        ConfigError: the output directory holds something else, or an option is wrong.
    """
    from jprep.cli.cluster.scripts import show_scripts
    from jprep.tokenizer.config import TokenizerConfig
    from jprep.tokenizer.train import tokenizer_directory

    tokenizer_directory(folder).check()
    config = recipe.tokenizer or TokenizerConfig()
    lines = [*_describe_data(data, recipe.corpus), *_describe_model(config)]
    where = describe_executor(recipe.executor, executor, workers)
    for line in (f"{data.name}: {folder} {where}", *lines):
        echo(one_line(line))
    if stages := list(_stages(data, recipe, folder)):
        show_scripts(recipe.executor, executor, stages)


def _describe_data(data: TrainingData, config: CorpusConfig) -> Iterator[str]:
    from jprep.corpus.config import step_name
    from jprep.tokenizer.sources.data import SourcesTrainingData
    from jprep.tokenizer.training_data import InputTrainingData

    if isinstance(data, SourcesTrainingData):
        for table, own in data.parts:
            yield f"  source   {table.name}, weight {table.weight:g}"
            yield from _describe_data(own, own.recipe.corpus if isinstance(own, InputTrainingData) else config)
    elif data.corpus:
        yield _describe_corpus(data.corpus, {source["name"] for source in data.sources})
    elif not isinstance(data, InputTrainingData):
        data.fields()  # report now that the file does not exist
        yield f"  count    the words of {data.name} with their counts"
    else:
        for source in config.sources:
            yield f"  read     {source.name}: {describe_files(source.paths)}, by {step_name(source.reader)}"
        yield f"  segment  {step_name(config.segmenter)}"


def _describe_corpus(corpus: Corpus, sources: set[str]) -> str:
    totals, names = corpus.manifest.totals, [source["name"] for source in corpus.manifest.sources]
    held_out = [name for name in names if name not in sources]
    without = f", without {', '.join(held_out)}" if held_out else ""
    documents = counted(totals.get("documents", 0), "document")
    return f"  count    {documents}, {totals.get('bytes', 0):,} bytes of text{without}"


def _describe_model(config: TokenizerConfig) -> Iterator[str]:
    from jprep.tokenizer.special_tokens import special_tokens

    if config.extended:
        yield f"  extend   {config.extended} to {config.vocab_size:,} ids, boundaries {config.boundaries}"
        return
    special = special_tokens(config)
    tokens = [*special.head, *special.tail]
    shown = " ".join(tokens[:_SHOWN]) + and_more(len(tokens), _SHOWN)
    yield f"  learn    {config.model}, {config.vocab_size:,} ids, boundaries {config.boundaries}"
    yield f"  special  {shown or 'none'}"


def _stages(data: TrainingData, recipe: Recipe, folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the directories that have stages: a training on files builds a corpus first."""
    from jprep.corpus.build import stage_names
    from jprep.engine.output_kinds import STATE
    from jprep.tokenizer.counting import stage_names as counting_names
    from jprep.tokenizer.sources.data import FOLDER, SourcesTrainingData
    from jprep.tokenizer.training_data import InputTrainingData, WordCountTrainingData

    for source, own in data.parts if isinstance(data, SourcesTrainingData) else []:
        if isinstance(own, InputTrainingData):
            yield folder / STATE / FOLDER / source.name / "corpus", stage_names(own.recipe.corpus)
    if isinstance(data, InputTrainingData):
        yield folder / STATE / "corpus", stage_names(recipe.corpus)
    if not isinstance(data, WordCountTrainingData):
        yield folder, counting_names(recipe.tokenizer)
